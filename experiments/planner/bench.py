"""The planner beside the exact answer on small problems, and its speed on clusters of several sizes."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from rich.console import Console
from rich.table import Table

from combofunc.planner import exact, greedy, planning
from combofunc.planner.model import Container, Plan
from combofunc.planner.verifier import violations
from experiments.planner.random_problems import (
    KINDS,
    RandomProblem,
    beside,
    cluster,
    family_sizes,
    grid_sizes,
    small_problems,
)

__all__ = ["run", "tables"]

_TIMED_SEED = 1  # of the problems that are timed only
# What runs already, as a share of the target: where an earlier plan put it, or anywhere.
_STARTS = (
    ("nothing runs", 0.0),
    ("up from a plan", 0.5),
    ("down from a plan", 1.5),
    ("down, scattered", 1.5),
)
_SIZES = (4, 8, 16)  # fig. 23
_LARGE = (1250, 2500, 5000)
_LARGE_ROUNDS = 7
_LARGE_TARGET = 1000


def run(seeds: Sequence[int], instances: int, repetitions: int, say: Callable[[str], None]) -> dict[str, Any]:
    """`instances` small problems are drawn from all seeds together, in equal parts; `repetitions` plans are
    timed for each start at 16 nodes."""
    say(f"{instances} small problems, each also solved exactly")
    quality = _quality(seeds, instances)
    say("16 nodes x 16 sizes, target 100")
    timed = {start: _times(_timed_problems(16, 100, start, repetitions)) for start, _ in _STARTS}
    small = [time for times in timed.values() for time in times]
    starts = [{"start": start} | _row(times) for start, times in timed.items()]
    by_sizes = [
        {"sizes": sizes} | _row(_times(_timed_problems(16, 100, "up from a plan", repetitions, sizes)))
        for sizes in _SIZES
    ]
    large: list[dict[str, Any]] = []
    for nodes in _LARGE:
        say(f"{nodes} nodes x 16 sizes, target {_LARGE_TARGET}")
        for start, _ in _STARTS[:2]:
            times = _times(_timed_problems(nodes, _LARGE_TARGET, start, _LARGE_ROUNDS))
            large.append({"nodes": nodes, "start": start} | _row(times))
    largest = [row for row in large if row["nodes"] == _LARGE[-1]]
    return {
        "p99_ms_16x16": _row(small)["p99_ms"],
        "p99_cpu_ms_16x16": _row(small)["p99_cpu_ms"],
        "ms_5000x16": max(row["median_ms"] for row in largest),
        "cpu_ms_5000x16": max(row["median_cpu_ms"] for row in largest),
        **quality,
        "starts_16x16": starts,
        "by_sizes": by_sizes,
        "by_nodes": large,
    }


def _quality(seeds: Sequence[int], instances: int) -> dict[str, Any]:
    """Compare costs with the best plan. In a shortage concurrency comes first: a plan that reaches less is
    counted as short and has no excess."""
    rows: list[dict[str, Any]] = []
    share = math.ceil(instances / len(seeds))
    for problem in [problem for seed in seeds for problem in small_problems(seed, share)][:instances]:
        best = exact.best(problem.request)
        if not best.proven:
            continue
        row: dict[str, Any] = {"kind": problem.kind}
        for name, plan in (("ours", planning.plan), ("greedy", greedy.plan)):
            planned = plan(problem.request)
            if wrong := violations(planned, problem.request):
                raise AssertionError(f"{name}: {problem.kind}: {wrong}")
            row[name] = _excess(planned, best)
        rows.append(row)
    kinds = [
        {"kind": kind, **_summary([r for r in rows if r["kind"] == kind])}
        for kind in KINDS
        if any(r["kind"] == kind for r in rows)
    ]
    counted = {"instances": len(rows), "not_proven": instances - len(rows)}
    return counted | _summary(rows) | {"by_kind": kinds}


def _excess(plan: Plan, best: exact.Best) -> float | None:
    """The plan's cost over the best cost, minus 1; None if it reaches less concurrency."""
    if min(plan.concurrency, plan.target) < best.concurrency:
        return None
    if best.cost < 1e-9:
        return 0.0 if plan.cost < 1e-9 else math.inf
    return plan.cost / best.cost - 1.0


def _summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, prefix in (("ours", ""), ("greedy", "greedy_")):
        excesses = [row[name] for row in rows if row[name] is not None]
        found[f"{prefix}excess_mean"] = round(statistics.fmean(excesses), 6) + 0.0 if excesses else None
        found[f"{prefix}excess_worst"] = round(max(excesses), 6) if excesses else None
        found[f"{prefix}short"] = sum(row[name] is None for row in rows)
    return found


def _timed_problems(
    nodes: int, target: int, start: str, count: int, sizes_on_offer: int = 16
) -> list[RandomProblem]:
    """Sizes in steps of cpu and memory, most of them useless, in turn with sizes that all have their use."""
    share = dict(_STARTS)[start]
    found = []
    for i in range(count):
        random = Random(f"{_TIMED_SEED}/{nodes}/{start}/{i}")
        sizes = (grid_sizes if i % 2 else family_sizes)(random, sizes_on_offer)
        if "scattered" in start:
            found.append(cluster(random, nodes, sizes, target, share))
        else:
            found.append(_after_a_plan(cluster(random, nodes, sizes, target), int(target * share)))
    return found


def _after_a_plan(problem: RandomProblem, concurrency: int) -> RandomProblem:
    """The problem with the containers that a plan for that concurrency creates."""
    plan = planning.plan(replace(problem.request, containers=(), target=concurrency))
    containers = tuple(Container(f"pod-{i:04d}", c.node, c.size) for i, c in enumerate(plan.created))
    return replace(problem, containers=containers, nodes=tuple(beside(problem.nodes, containers)))


def _times(problems: Sequence[RandomProblem]) -> list[tuple[float, float]]:
    """Wall-clock and CPU milliseconds of each plan, from Node objects to Plan."""
    found = []
    planning.plan(problems[0].request)  # the first call in a process also loads code
    for problem in problems:
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        planning.plan(problem.request)
        cpu_ms = (time.process_time() - cpu_s) * 1000
        found.append(((time.perf_counter() - wall_s) * 1000, cpu_ms))
    return found


def _row(times: Sequence[tuple[float, float]]) -> dict[str, Any]:
    wall_ms, cpu_ms = zip(*times, strict=True)
    return {
        "plans": len(times),
        "median_ms": round(statistics.median(wall_ms), 2),
        "p99_ms": round(_p99(wall_ms), 2),
        "median_cpu_ms": round(statistics.median(cpu_ms), 2),
        "p99_cpu_ms": round(_p99(cpu_ms), 2),
    }


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def tables(figures: dict[str, Any]) -> None:
    console = Console()
    for name in ("by_kind", "starts_16x16", "by_sizes", "by_nodes"):
        table = Table(*figures[name][0], title=name)
        for row in figures[name]:
            table.add_row(*map(str, row.values()))
        console.print(table)
