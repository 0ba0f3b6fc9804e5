"""`surgekit explain scale`: reads a KneePolicy, asks for the explanation, prints and draws it."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from hpa_replacement import plot
from hpa_replacement.explanation import Explanation, explain
from surgekit.cli.custom_object import KNEE_POLICY, find
from surgekit.cli.json_file import write_json
from surgekit.kube.client import Kube

__all__ = ["explain_scale"]


def explain_scale(
    kube: Kube, namespace: str, name: str, json_file: Path | None, picture: Path | None
) -> None:
    said = explain(find(kube, KNEE_POLICY, namespace, name), time.time())
    if picture:
        plot.png(said, picture)
    if not write_json(asdict(said), json_file):
        _show(Console(highlight=False, soft_wrap=True), said)


def _show(console: Console, said: Explanation) -> None:
    console.print(
        f"[bold]{said.policy}[/bold] ({said.target}, {said.mode}, via {said.via}): "
        f"{_or_none(said.target_replicas)} replicas asked for, {_or_none(said.replicas)} there; "
        f"{said.condition or 'no condition'} at {said.decided_at}"
    )
    for reason in said.reasons:
        console.print(f"  because {reason}")
    if said.inputs_age_s:
        ages = ", ".join(f"{name} {age_s:.1f} s" for name, age_s in sorted(said.inputs_age_s.items()))
        console.print(f"  its inputs were this old: {ages}")
    console.print(_sample(said))
    if said.budget:
        b = said.budget
        console.print(
            f"budget: {b.spent:.0f} of {b.replica_intervals:g} replica-intervals spent, {b.left:.0f} left "
            f"for {b.window_left_s:.0f} s, {b.each_interval:.1f} an interval; then {b.at_end}"
        )
    _show_search(console, said)
    if said.known:
        table = Table("throughput/s", "concurrency", "knee", "how it is known", box=SIMPLE_HEAD)
        for knee in said.known:
            how = "inferred" if knee.inferred else "found again" if knee.confirmed else "found"
            table.add_row(f"{knee.throughput_per_s:.3g}", f"{knee.concurrency:.3g}", str(knee.replicas), how)
        console.print(table)
    else:
        console.print("no knee is known")


def _sample(said: Explanation) -> str:
    s = said.sample
    if s is None:
        return "no sample so far: what is missing is said above"
    latency = "no latency" if s.get("latencySeconds") is None else f"{s['latencySeconds']:.3g} s"
    cpu = "" if s.get("cpuUtilisation") is None else f", CPU {s['cpuUtilisation']:.0%}"
    return (
        f"last sample, {s['at']}: {s['readyReplicas']} of {s['replicas']} replicas Ready, "
        f"{s['throughputPerSecond']:.3g}/s, {latency}, {s['errorsPerSecond']:.3g} errors/s{cpu}; "
        f"room for {s['capacity']}"
    )


def _show_search(console: Console, said: Explanation) -> None:
    if not said.points:
        console.print("nothing was measured by a search yet")
    else:
        which = "searching" if said.searching else "last search"
        points = ", ".join(f"{p.replicas} ({p.score:.3g})" for p in said.points)
        console.print(f"{which} ({said.variant}) in {said.left}..{said.right}: {points}")
    if said.next_step:
        what = "the knee would be" if said.next_step.found else "next it asks for"
        console.print(f"  {what} {said.next_step.replicas}: {said.next_step.reason}")
    if said.fit:
        console.print(f"  the points tell a knee at {said.fit.knee}, {said.fit.sure:.0%} sure")
    if picture := plot.text(said):
        Console(highlight=False, markup=False, soft_wrap=True).print(picture)
        console.print("           replicas; points 1, 2, ... as measured, o before, : knee, . curve, - chord")


def _or_none(value: int | None) -> str:
    return "none" if value is None else str(value)
