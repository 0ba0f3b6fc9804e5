"""`surgekit bench combofunc`: which comparison is played, and its figures as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from kwok.combofunc.workload import Workload
from surgekit.cli.bench_kneescale import partial_of
from surgekit.cli.json_file import write_json

__all__ = ["play", "show", "simulate"]

_SIMULATED = "simulated"


def simulate(quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    from kwok.combofunc.simulated import Extent, run
    from surgekit.cli.bench_combofunc_planned import planned

    return run(Workload(), Extent.quick() if quick else Extent(), planned, say)


def play(
    quick: bool, rounds: int, arms: Sequence[str], json_file: Path | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """Live; before it the simulation, for the sizes of the homogeneous arms and for what is varied there."""
    from kwok.combofunc.arms import ARMS, Choice
    from kwok.combofunc.bench import Plan, run
    from kwok.kneescale.plan import add_played, read_played

    chosen = tuple(arms) or ARMS
    plan = Plan.quick(chosen) if quick else Plan.full(rounds, chosen)
    partial = partial_of(json_file)
    say(f"{plan.minutes:.0f} minutes of load if nothing of it was played before, after the simulation")
    if partial:
        say(f"each arm that ends is kept in {partial}; the same command goes on from there")
    extent = "quick" if quick else "full"
    simulated = read_played(partial).get(_SIMULATED, {}).get(extent)
    if simulated is None:
        simulated = simulate(quick, say)
        add_played(partial, _SIMULATED, {extent: simulated})
    choices = {
        arm: {name: Choice(**choice) for name, choice in by_function.items()}
        for arm, by_function in simulated["choices"].items()
    }
    return run(plan, choices, partial, say) | {"in_virtual_time": simulated}


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
