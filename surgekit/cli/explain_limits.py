"""`surgekit explain limits`: reads a DistributedContainer, asks for the explanation, prints it."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from limit_allocator.explanation import Container, Explanation, explain, sparkline
from surgekit.cli.custom_object import DISTRIBUTED_CONTAINER, find
from surgekit.cli.json_file import write_json
from surgekit.kube.client import Kube

__all__ = ["explain_limits"]


def explain_limits(kube: Kube, namespace: str, name: str, json_file: Path | None) -> None:
    said = explain(find(kube, DISTRIBUTED_CONTAINER, namespace, name), time.time())
    if not write_json(asdict(said), json_file):
        _show(Console(highlight=False, soft_wrap=True), said)


def _show(console: Console, said: Explanation) -> None:
    mode = said.mode if said.mode == said.asked_mode else f"{said.mode}, not {said.asked_mode}"
    console.print(
        f"[bold]{said.application}[/bold] ({mode}): {said.container_count} containers of {said.pods} pods "
        f"share {_both(said.limit)}; as of {said.age_s:.0f} s ago"
    )
    console.print(
        f"  allocated {_both(said.allocated)}, used {_both(said.used)}, unallocated {_both(said.unallocated)}"
    )
    console.print(
        f"  {said.events_survived} memory events survived and {said.oom_kills} OOM kills since the "
        "controller began"
    )
    for type_, status, reason, message in said.conditions:
        console.print(f"  {type_} {status} ({reason}): {message}", markup=False)
    for reason, pods, example in said.left_alone:
        console.print(f"  {pods} pods are left alone: {reason}, such as {example}", markup=False)
    if said.containers:
        console.print(_table(said))
        if more := said.container_count - len(said.containers):
            console.print(f"{more} more need less attention than these")
    _show_history(console, said)


def _table(said: Explanation) -> Table:
    table = Table(
        "container", "node", "CPU limit", "used", "throttled", "memory limit", "used", "changed", "why",
        box=SIMPLE_HEAD,
    )  # fmt: skip
    for c in said.containers:
        table.add_row(
            f"{c.pod}/{c.container}", c.node, f"{c.cpu_millicores}m", f"{c.cpu_used_millicores}m",
            f"{c.throttled_percent} %", f"{c.memory_mib}Mi", f"{c.memory_used_mib}Mi", _changed(c), c.reason,
        )  # fmt: skip
    return table


def _changed(c: Container) -> str:
    return "-" if c.changed_s_ago is None else f"{c.changed_s_ago:.0f} s ago"


def _show_history(console: Console, said: Explanation) -> None:
    if said.lines:
        steps = max(len(line.values) for line in said.lines)
        console.print(f"the last {steps * said.step_s / 60:.1f} min, {said.step_s:g} s a step:")
    for line in said.lines:
        picture = sparkline(line.values, line.top)
        console.print(f"  {line.name:<13} {picture} {line.values[-1]}{line.unit} of {line.top}{line.unit}")


def _both(resources: dict[str, str]) -> str:
    return f"{resources.get('cpu', '?')} CPU and {resources.get('memory', '?')}"
