"""`surgekit explain combofunc`: reads a ComboFunc and its pods, asks for the explanation, prints it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from combofunc.explanation import Explanation, explain
from combofunc.labels import FUNCTION_LABEL
from surgekit.cli.custom_object import COMBO_FUNC, find
from surgekit.cli.json_file import write_json
from surgekit.kube.api_path import Resource
from surgekit.kube.client import Kube

__all__ = ["explain_combofunc"]


def explain_combofunc(kube: Kube, namespace: str, name: str, json_file: Path | None) -> None:
    obj = find(kube, COMBO_FUNC, namespace, name)
    selector = f"{FUNCTION_LABEL}={name}"
    pods, _ = kube.list_all(Resource("v1", "pods").path(namespace), labelSelector=selector)
    said = explain(obj, pods)
    if not write_json(asdict(said), json_file):
        _show(Console(highlight=False, soft_wrap=True), said)


def _show(console: Console, said: Explanation) -> None:
    short = f", {said.shortage} without room" if said.shortage else ""
    console.print(
        f"[bold]{said.function}[/bold]: concurrency {said.ready} ready, {_or_none(said.planned)} planned "
        f"for a target of {_or_none(said.target)}{short}"
    )
    for type_, status, reason, message in said.conditions:
        console.print(f"  {type_} {status} ({reason}): {message}", markup=False)
    if plan := said.plan:
        console.print(
            f"plan of {plan['at']}: S {plan['scalingSeconds']:g} s + lambda * B {plan['resourcePrice']:g} "
            f"= {plan['cost']:g}; {plan['kept']} kept"
        )
        for place in plan["created"]:
            console.print(f"  create {place['count']} x {place['size']} on {place['node']}")
        for resize in plan["resized"]:
            console.print(f"  resize {resize['pod']} from {resize['from']} to {resize['to']}")
        for pod in plan["removed"]:
            console.print(f"  remove {pod}")
        for reason in plan["reasons"]:
            console.print(f"  because {reason}", markup=False)
    table = Table("pod", "size", "concurrency", "planned for", "on", "state", box=SIMPLE_HEAD)
    for line in said.pods:
        planned = line.planned_node or "-"
        table.add_row(line.name, line.size, str(line.concurrency), planned, line.node or "-", line.state)
    console.print(table if said.pods else "it has no pods")


def _or_none(value: int | None) -> str:
    return "none" if value is None else str(value)
