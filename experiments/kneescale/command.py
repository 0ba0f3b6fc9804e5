"""`surgekit bench kneescale`: which comparison is played, and its figures as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments.kneescale import bench, simulated
from experiments.kneescale.figures import figures
from experiments.kneescale.plan import ARMS, DYNAMIC, LOADS, STATIONARY, Plan
from experiments.kneescale.searched import scaler_of
from surgekit.cli.json_file import takes_output, write_json

__all__ = ["Options", "partial_of", "plan_of", "play", "show", "simulate"]


@dataclass(frozen=True)
class Options:
    """Which part of the comparison the command line asks for."""

    quick: bool = False
    arms: Sequence[str] = ()  # empty: all
    load: str | None = None  # None: both
    rounds: int = 3
    time_factor: float = 4.0
    at_once: int = 3
    data: Path | None = None  # of an Azure trace; None: the extract shipped


def plan_of(options: Options) -> Plan:
    load, rounds = options.load, options.rounds
    if options.quick:
        return Plan.quick(options.time_factor, options.data, options.arms, load)
    played = {STATIONARY: rounds, DYNAMIC: 1} if load is None else {LOADS[load]: rounds}
    return Plan.of(played, options.arms or ARMS, options.at_once, options.time_factor, options.data)


def partial_of(json_file: Path | None) -> Path | None:
    """Where a run leaves what it has, so that the same command goes on after an interruption."""
    return None if json_file is None or takes_output(json_file) else json_file.with_suffix(".partial.jsonl")


def play(plan: Plan, json_file: Path | None, say: Callable[[str], None]) -> dict[str, Any]:
    partial = partial_of(json_file)
    say(f"{plan.minutes:.0f} minutes of load if nothing of it was played before")
    if partial:
        say(f"each batch that ends is kept in {partial}; the same command goes on from there")
    return bench.run(plan, partial, say)


def simulate(plan: Plan, grid: bool, say: Callable[[str], None]) -> dict[str, Any]:
    return figures(simulated.run(plan, simulated.functions_of(grid), scaler_of, say), plan)


def show(found: Mapping[str, Any], json_file: Path | None) -> None:
    if write_json(dict(found), json_file):
        return
    console = Console()
    for load, gains in found["gain_over"].items():
        table = Table("ours over", "mean", "median", "best", "worst", title=f"{load}: cumulative performance")
        for arm, gain in gains.items():
            worst = min(gain["by_function"].items(), key=lambda item: item[1])
            shares = [_said(gain[key]) for key in ("mean", "median", "best")]
            table.add_row(arm, *shares, f"{_said(worst[1])} ({worst[0]})")
        console.print(table)
    console.print(f"samples a search: mean {found['samples_mean']}, most {found['samples_max']}")


def _said(gain: float) -> str:
    return f"{gain:+.1%}" if gain < 10 else f"x {1 + gain:.0f}"
