"""`surgekit bench pulsenet`: which runs are played, and their figures as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments.intervals import in_words
from experiments.kneescale.command import partial_of
from experiments.pulsenet import simulated
from experiments.results.about import write_figures

__all__ = ["Options", "show", "simulate"]


@dataclass(frozen=True)
class Options:
    quick: bool = False
    seeds: Sequence[int] | None = None  # None: the reported ones
    trace: Path | None = None  # a folder of an Azure sample; None: the extract
    comparison_only: bool = False  # no sweeps


def simulate(options: Options, json_file: Path | None, say: Callable[[str], None]) -> dict[str, Any]:
    plan = simulated.Plan.quick(options.trace) if options.quick else simulated.Plan(options.trace)
    if options.seeds:
        plan = replace(plan, seeds=options.seeds)
    if options.comparison_only:
        plan = plan.without_sweeps()
    partial = partial_of(json_file)
    if partial:
        say(f"each run that ends is kept in {partial}; the same command goes on from there")
    return simulated.run(plan, partial, say)


def show(found: Mapping[str, Any], json_file: Path | None) -> None:
    if write_figures(found, json_file):
        return
    console = Console()
    columns = ("system", "slowdown", "cost", "slowdown / ours", "cost / ours", "creations / ours")
    table = Table(*columns, title="above 1, ours is better")
    for name, of in found["systems"].items():
        ratios = [
            in_words(found[key][name]) if name in found[key] else ""
            for key in ("slowdown_ratio", "cost_ratio")
        ]
        created = found["creations_ratio"].get(name)
        table.add_row(
            name, f"{of['slowdown']:.2f}", f"{of['cost']:.2f}", *ratios, f"{created:.2f}" if created else ""
        )
    console.print(table)
    console.print(
        f"regular share {found['regular_share']:.4f}, emergency CPU {found['emergency_cpu_share']:.3f}"
    )
    for name, held in found["must"].items():
        console.print(f"{'yes' if held else 'NO '} {name}")
