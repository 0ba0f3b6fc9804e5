"""`surgekit explain burst`: reads a BurstFunction, asks for the explanation, prints it."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from burst_plane.explanation import Explanation, explain
from surgekit.cli.custom_object import BURST_FUNCTION, find
from surgekit.cli.json_file import write_json
from surgekit.kube.client import Kube

__all__ = ["explain_burst"]


def explain_burst(kube: Kube, namespace: str, name: str, json_file: Path | None) -> None:
    said = explain(find(kube, BURST_FUNCTION, namespace, name), time.time())
    if not write_json(asdict(said), json_file):
        _show(Console(highlight=False, soft_wrap=True), said)


def _show(console: Console, said: Explanation) -> None:
    mode = said.mode if said.mode == said.asked_mode else f"{said.mode}, not {said.asked_mode}"
    console.print(
        f"[bold]{said.function}[/bold] ({mode}): {said.requests_per_second:g} requests a second; "
        f"as of {said.age_s:.0f} s ago"
    )
    for sentence in said.sentences:
        console.print(f"  {sentence}", markup=False)
    for type_, status, reason, message in said.conditions:
        console.print(f"  {type_} {status} ({reason}): {message}", markup=False)
    table = Table("track", "in flight", "instances", "wanted or prepared", "share", box=SIMPLE_HEAD)
    regular, emergency = said.regular, said.emergency
    share = float(emergency.get("share") or 0.0)
    table.add_row(
        "regular",
        *(str(regular.get(key, "-")) for key in ("inFlight", "ready", "wanted")),
        f"{1 - share:.2%}",
    )
    table.add_row(
        "emergency", str(emergency.get("inFlight", "-")), "one a request",
        str(emergency.get("prepared", "-")), f"{share:.2%}",
    )  # fmt: skip
    console.print(table)
