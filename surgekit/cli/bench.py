"""`surgekit bench`: experiments that compare with the baseline in the same run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from kwok.parts import WEIGHT

__all__ = ["app", "show"]

app = typer.Typer(no_args_is_help=True, help="Experiments: ours and the baseline alternate on one lab.")

JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write all figures there; '-' prints them instead of the table.")
]
Weight = Annotated[int, typer.Option(min=1, help="The extender's weight in the scheduler's configuration.")]


@app.command()
def extender(
    nodes: Annotated[int, typer.Option(min=2, help="Emulated nodes.")] = 1000,
    pods: Annotated[int, typer.Option(min=10, help="Pods waiting when the scheduler starts.")] = 2000,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    quick: Annotated[bool, typer.Option(help="Half the pods, two rounds.")] = False,
    weight: Weight = WEIGHT,
    probe: Annotated[bool, typer.Option(help="Run the probe as well, in every arm.")] = False,
    json_file: JsonFile = None,
) -> None:
    """How much of kube-scheduler's speed is left with the extender."""
    from kwok.bench_extender import run

    if quick:
        pods, rounds = pods // 2, min(rounds, 2)
    show(run(nodes, pods, rounds, weight, progress(), probe), json_file)


@app.command()
def placement(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds with nodes of different speeds.")] = 7,
    equal_rounds: Annotated[int, typer.Option(min=0, help="Rounds with equal nodes.")] = 3,
    quick: Annotated[bool, typer.Option(help="Three rounds and two.")] = False,
    weight: Weight = WEIGHT,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture of the first round there.")] = None,
) -> None:
    """How much sooner a scale-out is Ready with the extender."""
    from kwok.bench_placement import run

    if quick:
        rounds, equal_rounds = min(rounds, 3), min(equal_rounds, 2)
    figures = run(rounds, equal_rounds, weight, progress())
    if plot:
        from kwok.plots import placement_plot

        placement_plot(figures["rounds"][0], plot)
    show(figures, json_file)


def progress() -> Callable[[str], None]:
    """Says on standard error how far a long run is, and when."""
    console, started_s = Console(stderr=True, highlight=False, soft_wrap=True), time.monotonic()

    def say(text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - started_s), 60)
        console.print(f"[dim]{minutes:3d}:{seconds:02d}[/dim] {text}")

    return say


def show(figures: dict[str, Any], json_file: Path | None) -> None:
    if json_file is not None:
        text = json.dumps(figures, indent=1) + "\n"
        if str(json_file) == "-":
            sys.stdout.write(text)
            return
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(text)
    table = Table("figure", "value")
    for key, value in figures.items():
        if not isinstance(value, list | dict):
            table.add_row(key, str(value))
    Console().print(table)
