"""`surgekit bench pulsenet`: which arms are played, and their figures as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from experiments.intervals import in_words
from experiments.pulsenet.live.plan import ARMS, OURS, Plan
from experiments.pulsenet.live.validation import COMPARED
from experiments.results.about import write_figures
from kwok.burst.plane import why_no_plane

__all__ = ["plan_of", "show"]


def plan_of(
    quick: bool, arms: Sequence[str], seeds: Sequence[int] | None, trace: Path | None, sweep: bool = False
) -> Plan:
    """Raises BadParameter for what cannot be played here."""
    if reason := why_no_plane():
        raise typer.BadParameter(f"the live arms cannot run here: {reason}")
    if unknown := [arm for arm in arms if arm not in ARMS]:
        raise typer.BadParameter(f"{unknown[0]!r} is not one of {', '.join(ARMS)}", param_hint="--arm")
    plan = replace(Plan.quick() if quick else Plan(), data=trace, sweep=sweep)
    if arms:
        plan = replace(plan, arms=tuple(arm for arm in ARMS if arm in {*arms, OURS}))
    return replace(plan, seeds=tuple(seeds)) if seeds else plan


def show(found: Mapping[str, Any], json_file: Path | None) -> None:
    if write_figures(found, json_file):
        return
    console = Console()
    ratios = Table("above 1, ours is better", "p99 slowdown", "cost", "creations")
    for name, slowdown in found["slowdown_ratio"].items():
        created = f"{found['creations_ratio'][name]:.2f}"
        ratios.add_row(name, in_words(slowdown), in_words(found["cost_ratio"][name]), created)
    console.print(ratios)
    arms = Table("live", "slowdown", "cost", "delay p99", "regular share", "creations", "CPU", "lost", "load")
    for name, runs in found["runs"].items():
        for run in runs:
            arms.add_row(
                f"{name}, seed {run['seed']}", f"{run['slowdown']:.2f}", f"{run['cost']:.2f}",
                f"{run['delay_ms']['99']:.0f} ms", f"{run['regular_share']:.4f}", str(run["creations"]),
                f"{run['plane_cpu_cores']:.2f} cores", str(run["lost"]), f"{run['load_average']['mean']:.1f}",
            )  # fmt: skip
    console.print(arms)
    beside = Table("simulated / live - 1", *COMPARED, "with measured delays:", *COMPARED)
    for name, figures in found["simulated_beside"].items():
        errors = [
            [_percent(figures[key][error]) for key in COMPARED]
            for error in ("error", "error_with_measured_delays")
        ]
        beside.add_row(name, *errors[0], "", *errors[1])
    console.print(beside)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:+.0f} %"
