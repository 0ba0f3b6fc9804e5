"""`surgekit bench escra`: which runs are played, and their figures as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from experiments.escra.arms import ARMS, BASELINES
from experiments.escra.node import has_burst, why_not
from experiments.escra.plan import Plan
from experiments.intervals import in_words
from experiments.results.about import write_figures

__all__ = ["Options", "plan_of", "show"]


@dataclass(frozen=True)
class Options:
    quick: bool = False
    arms: Sequence[str] = ()  # empty: all
    seeds: Sequence[int] | None = None
    trace: Path | None = None
    sweep: bool = False
    profile_window_s: float | None = None
    rest_only: bool = False  # no applications: reaction, steps and functions
    serverless_only: bool = False
    stock_resize: bool = False


def plan_of(options: Options) -> Plan:
    """Raises BadParameter for what cannot be played here."""
    if reason := why_not():
        raise typer.BadParameter(f"containers cannot run here: {reason}")
    if unknown := [arm for arm in options.arms if arm not in ARMS]:
        raise typer.BadParameter(f"{unknown[0]!r} is not one of {', '.join(ARMS)}", param_hint="--arm")
    plan = Plan.quick() if options.quick else Plan()
    plan = replace(plan, data=options.trace, sweep=options.sweep, stock_resize=options.stock_resize)
    if options.seeds:
        plan = replace(plan, seeds=options.seeds)
    if options.profile_window_s:
        plan = replace(plan, profile_window_s=options.profile_window_s)
    if options.rest_only or options.serverless_only:
        plan = replace(plan, applications=())
    if options.serverless_only:
        plan = replace(plan, reaction_containers=0, reaction_s=0.0, stepping=(), scale_containers=())
    if not has_burst():
        plan = replace(plan, arms=[arm for arm in plan.arms if not ARMS[arm].burst])
    if options.arms:
        ours = [BASELINES[arm] for arm in options.arms if arm in BASELINES]
        plan = replace(plan, arms=[arm for arm in ARMS if arm in {*options.arms, *ours}])
    return plan


def show(found: Mapping[str, Any], json_file: Path | None) -> None:
    if write_figures(found, json_file):
        return
    console = Console()
    if found["latency_ratio"]:
        _show_applications(console, found)
    if reaction := found.get("reaction_ms"):
        console.print(
            f"reaction with {reaction['containers']} containers: p50 {reaction.get('p50')} ms, "
            f"p99 {reaction.get('p99')} ms of {reaction['episodes']}; {reaction['unanswered']} not answered"
        )
    for scale in found.get("scale", ()):
        console.print(
            f"the controller with {scale['containers']} containers: {scale['core_share']:.2f} of a core, "
            f"{scale['containers_per_core']:.0f} containers a core; decisions p99 "
            f"{scale['decision_cpu_ms']['p99']:.1f} ms; {scale['changed_share']:.0%} of limits change a tick"
        )
    if resized := found.get("stepping", {}).get("stock_resize"):
        console.print(
            f"in-place resize: {resized['resizes']} patches, answered after {resized['answered_ms']['p50']} "
            f"ms, written after {resized['written_ms']['p50']} ms (p99 {resized['written_ms']['p99']})"
        )
    if found.get("serverless"):
        _show_serverless(console, found)


def _show_serverless(console: Console, found: Mapping[str, Any]) -> None:
    table = Table("functions: above 1, ours is better", "CPU limits", "memory limits", "mean latency")
    for name, cpu in found["serverless_cpu_ratio"].items():
        others = (found[f"serverless_{of}_ratio"][name] for of in ("memory", "latency"))
        table.add_row(name, in_words(cpu), *map(in_words, others))
    console.print(table)


def _show_applications(console: Console, found: Mapping[str, Any]) -> None:
    table = Table(
        "above 1, ours is better", "p99.9 latency", "throughput", "CPU slack p50", "memory slack p50"
    )
    for baseline, latency in found["latency_ratio"].items():
        slack = [found[of].get(baseline) for of in ("cpu_slack_ratio", "memory_slack_ratio")]
        table.add_row(
            f"{baseline} (ours: {found['compared_with'][baseline]})",
            in_words(latency),
            in_words(found["throughput_ratio"][baseline]),
            *(in_words(of["p50"]) if of else "no limit" for of in slack),
        )
    console.print(table)
    left = found["oom_kills_with_memory_left"]
    kills = ", ".join(f"{arm} {count} ({left[arm]})" for arm, count in found["oom_kills"].items())
    console.print(f"OOM kills (while the application had memory left): {kills}")
