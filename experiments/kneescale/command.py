"""`surgekit bench kneescale`: which comparison is played, and its figures as tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments.kneescale import bench, simulated
from experiments.kneescale.figures import figures
from experiments.kneescale.plan import ARMS, DYNAMIC, LOADS, STATIONARY, STATIONARY_CLIENTS, Plan
from experiments.kneescale.searched import scaler_of
from experiments.kneescale.true_knee import true_knees
from experiments.results.about import write_figures
from kwok.traffic.functions import CLUSTER, FUNCTIONS
from surgekit.cli.json_file import takes_output

__all__ = ["Options", "partial_of", "plan_of", "play", "searched_knees", "show", "simulate"]


@dataclass(frozen=True)
class Options:
    """Which part of the comparison the command line asks for."""

    quick: bool = False
    arms: Sequence[str] = ()  # empty: all
    load: str | None = None  # None: both
    rounds: int = 3
    time_factor: float = 4.0
    at_once: int = 4
    trace: Path | None = None  # a folder of another Azure sample; None: the extract shipped
    seeds: Sequence[int] | None = None  # one a round; None: the reported ones
    budgets: Sequence[float] = (1.0,)  # multiples of the paper's


def plan_of(options: Options) -> Plan:
    load, rounds = options.load, len(options.seeds) if options.seeds else options.rounds
    if options.quick:
        plan = Plan.quick(options.time_factor, options.trace, options.arms, load)
    else:
        played = {STATIONARY: rounds, DYNAMIC: 1} if load is None else {LOADS[load]: rounds}
        played = {load.with_budget(b): rounds for load, rounds in played.items() for b in options.budgets}
        plan = Plan.of(played, options.arms or ARMS, options.at_once, options.time_factor, options.trace)
    return replace(plan, seeds=options.seeds) if options.seeds else plan


def partial_of(json_file: Path | None) -> Path | None:
    """The file of finished batches: after an interruption the same command continues from it."""
    return None if json_file is None or takes_output(json_file) else json_file.with_suffix(".partial.jsonl")


def play(plan: Plan, json_file: Path | None, say: Callable[[str], None]) -> dict[str, Any]:
    partial = partial_of(json_file)
    say(f"{plan.minutes:.0f} minutes of load, less what was played before")
    if partial:
        say(f"finished batches are kept in {partial}; the same command continues from it")
    return bench.run(plan, partial, say)


def simulate(plan: Plan, grid: bool, say: Callable[[str], None]) -> dict[str, Any]:
    return figures(simulated.run(plan, simulated.functions_of(grid), scaler_of, say), plan)


def searched_knees(found: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """How near the searches came: by function, the true knee, those found, and their mean distance.

    Under a budget a search also ends once the knee is surely above what the budget affords, and it asks for
    little more than that: a true knee beyond is not reached.
    """
    searched = {name: knees for name, knees in found["knees_found"].items() if knees and name in FUNCTIONS}
    near: dict[str, dict[str, Any]] = {}
    for name, true in true_knees((FUNCTIONS[name] for name in searched), STATIONARY_CLIENTS).items():
        knees = searched[name]
        near[name] = {"true": true, "found": knees, "capacity": CLUSTER.capacity(FUNCTIONS[name].cpu_cores)}
        if true is not None:
            near[name]["off_by_mean"] = round(statistics.mean(abs(knee - true) for knee in knees), 2)
    return near


def show(found: Mapping[str, Any], json_file: Path | None) -> None:
    if write_figures(found, json_file):
        return
    console = Console()
    for load, gains in found["gain_over"].items():
        table = Table("ours over", "mean", "median", "best", "worst", title=f"{load}: cumulative performance")
        for arm, gain in gains.items():
            worst = min(gain["by_function"].items(), key=lambda item: item[1])
            shares = [_said(gain[key]) for key in ("mean", "median", "best")]
            table.add_row(arm, *shares, f"{_said(worst[1])} ({worst[0]})")
        console.print(table)
    if near := found.get("searched_knees"):
        table = Table("function", "true knee", "found", "off by", "of", title="knees of the stationary load")
        for name, knees in near.items():
            off_by, most = str(knees.get("off_by_mean", "-")), str(knees["capacity"])
            table.add_row(name, str(knees["true"]), ", ".join(map(str, knees["found"])), off_by, most)
        console.print(table)
    console.print(f"samples a search: mean {found['samples_mean']}, most {found['samples_max']}")


def _said(gain: float) -> str:
    return f"{gain:+.1%}" if gain < 10 else f"x {1 + gain:.0f}"
