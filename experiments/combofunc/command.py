"""`surgekit bench combofunc`: choose a comparison, and print its figures as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments.combofunc import bench, simulated
from experiments.combofunc.arms import ARMS, Choice
from experiments.combofunc.planned import planned
from experiments.combofunc.workload import Workload
from experiments.kneescale.command import partial_of
from experiments.kneescale.plan import add_played, read_played
from surgekit.cli.json_file import write_json

__all__ = ["play", "show", "simulate"]

_SIMULATED = "simulated"


def simulate(quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    extent = simulated.Extent.quick() if quick else simulated.Extent()
    return simulated.run(Workload(), extent, planned, say)


def play(
    quick: bool, rounds: int, arms: Sequence[str], json_file: Path | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """Play live, after a simulation that finds the sizes of the baselines and varies parameters."""
    chosen = tuple(arms) or ARMS
    plan = bench.Plan.quick(chosen) if quick else bench.Plan.full(rounds, chosen)
    partial = partial_of(json_file)
    say(f"{plan.minutes:.0f} minutes of load after the simulation, less what was played before")
    if partial:
        say(f"each arm that ends is kept in {partial}; the same command goes on from there")
    extent = "quick" if quick else "full"
    in_virtual_time = read_played(partial).get(_SIMULATED, {}).get(extent)
    if in_virtual_time is None:
        in_virtual_time = simulate(quick, say)
        add_played(partial, _SIMULATED, {extent: in_virtual_time})
    choices = {
        arm: {name: Choice(**choice) for name, choice in by_function.items()}
        for arm, by_function in in_virtual_time["choices"].items()
    }
    return bench.run(plan, choices, partial, say) | {"in_virtual_time": in_virtual_time}


def show(found: Mapping[str, Any], json_file: Path | None) -> None:
    if write_json(dict(found), json_file):
        return
    console = Console()
    for key, title in (("time_ratio", "scaling time"), ("cost_ratio", "resource cost")):
        table = Table("baseline / ours", "mean", "best", "by function", title=title)
        for arm, ratio in found[key].items():
            each = ", ".join(f"{name} {value:.2f}" for name, value in ratio["by_function"].items())
            table.add_row(arm, f"{ratio['mean']:.2f}", f"{ratio['best']:.2f}", each)
        console.print(table)
