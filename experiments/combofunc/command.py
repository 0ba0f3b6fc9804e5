"""`surgekit bench combofunc`: choose a comparison, and print its figures as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments.combofunc import bench, simulated
from experiments.combofunc.arms import LIVE_ARMS, Choice
from experiments.combofunc.planned import planned
from experiments.combofunc.workload import Workload
from experiments.kneescale.command import partial_of
from experiments.kneescale.plan import add_played, read_played
from experiments.results.about import write_figures
from experiments.seeds import REPORTED

__all__ = ["Options", "play", "show", "simulate"]

_SIMULATED = "simulated"
_TABLES = (
    ("time_ratio", "scaling time"),
    ("cost_ratio", "price of what was asked for"),
    ("unit_cost_ratio", "price of what was there, eq. (10)"),
)


@dataclass(frozen=True)
class Options:
    """Which comparison the command line asks for."""

    quick: bool = False
    rounds: int = 3  # played live
    arms: Sequence[str] = ()  # empty: all
    seeds: Sequence[int] | None = None  # None: the reported ones
    trace: Path | None = None  # a folder of another Azure sample


def simulate(options: Options, say: Callable[[str], None]) -> dict[str, Any]:
    extent = simulated.Extent.quick() if options.quick else simulated.Extent()
    if options.seeds:
        extent = extent.with_seeds(options.seeds)
    return simulated.run(Workload(trace=options.trace), extent, planned, say)


def play(options: Options, json_file: Path | None, say: Callable[[str], None]) -> dict[str, Any]:
    """Play live, after a simulation that finds the sizes of the baselines and varies parameters."""
    plan_of = bench.Plan.quick if options.quick else bench.Plan.full
    seeds = options.seeds or REPORTED[: options.rounds]
    plan = plan_of(seeds, tuple(options.arms) or LIVE_ARMS, options.trace)
    partial = partial_of(json_file)
    say(f"{plan.minutes:.0f} minutes of load after the simulation, less what was played before")
    if partial:
        say(f"each arm that ends is kept in {partial}; the same command goes on from there")
    extent = ("quick" if options.quick else "full") + (f"-{options.trace.name}" if options.trace else "")
    in_virtual_time = read_played(partial).get(_SIMULATED, {}).get(extent)
    if in_virtual_time is None:
        in_virtual_time = simulate(replace(options, seeds=None), say)
        add_played(partial, _SIMULATED, {extent: in_virtual_time})
    choices = {
        arm: {name: Choice(**choice) for name, choice in by_function.items()}
        for arm, by_function in in_virtual_time["choices"].items()
    }
    return bench.run(plan, choices, partial, say) | {"in_virtual_time": in_virtual_time}


def show(found: Mapping[str, Any], json_file: Path | None) -> None:
    if write_figures(found, json_file):
        return
    console = Console()
    for key, title in _TABLES:
        table = Table("baseline / ours", "mean (95 %)", "by function", title=title)
        for arm, ratio in found[key].items():
            each = ", ".join(f"{name} {value:.2f}" for name, value in ratio["by_function"].items())
            table.add_row(arm, f"{ratio['geomean']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})", each)
        console.print(table)
