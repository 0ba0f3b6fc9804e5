"""Run every solver variant on a set of problems, beside the results of the authors' program."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from cluster_autoscaler_hook.solver import problem_file, secondary
from cluster_autoscaler_hook.solver.model import InvalidProblem, Problem, Solution
from cluster_autoscaler_hook.solver.solve import solve
from cluster_autoscaler_hook.solver.variant import Variant
from cluster_autoscaler_hook.solver.verifier import VerificationError
from experiments.fcma import random_problems

__all__ = ["QUICK", "BenchProblem", "Deadlines", "random_set", "recorded_set", "run", "spread_out"]

# 'Experimental setup': 0.5 for every app; the scalability files set none.
_SFMPL = {"paper80": 0.5, "scalability": 1.0}
# How many problems `--quick` takes.
QUICK = 8
# 'Node recycling': solved again with a workload 20 % higher.
_GROWTH = 1.2


@dataclass(frozen=True, slots=True)
class BenchProblem:
    name: str
    problem: Problem
    reference_cost: float | None  # None: the authors' program timed out, or the problem is fresh
    reference_bound: float = 0.0
    reference_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Deadlines:
    best_s: float
    paper_s: float

    def of(self, variant: Variant) -> float:
        return self.paper_s if variant is Variant.PAPER else self.best_s


def recorded_set(name: str, directory: Path) -> list[BenchProblem]:
    """`paper80` or `scalability`: problem files with their recorded figures."""
    figures = ("cost", "lower_bound", "best_known_bound", "seconds")
    if name == "paper80":
        rows = _rows(directory / name / "reference.csv", ("scenario", *figures))
        files = [(row["scenario"], f"{row['scenario']}.json") for row in rows]
    else:
        figures = ("published_cost", "published_lower_bound", "published_lower_bound", "published_seconds")
        rows = _rows(directory / name / "published.csv", ("file", *figures))
        files = [(row["file"], row["file"]) for row in rows]
    found = []
    for (title, file), row in zip(files, rows, strict=True):
        cost, bound, known, seconds = (_number(row, column) for column in figures)
        problem = problem_file.load(directory / name / file, _SFMPL[name])
        found.append(BenchProblem(title, problem, cost, max(bound or 0.0, known or 0.0), seconds))
    return found


def random_set(name: str, count: int, seeds: Sequence[int]) -> list[BenchProblem]:
    """Fresh problems of the same kind, `count` for each seed; their reference is our variant `paper`."""
    draw = random_problems.paper_grid if name == "paper80" else random_problems.scalability
    return [
        BenchProblem(f"{name}-{seed}-{number}", problem, None)
        for seed in seeds
        for number, problem in enumerate(islice(draw(seed, _SFMPL[name]), count))
    ]


def spread_out(problems: Sequence[BenchProblem], count: int) -> list[BenchProblem]:
    """`count` of them at even distances: the sets are ordered by size or at random."""
    if count >= len(problems):
        return list(problems)
    return [problems[index * len(problems) // count] for index in range(count)]


def run(
    problems: Sequence[BenchProblem],
    deadlines: Deadlines,
    say: Callable[[str], None],
    *,
    variants: Iterable[Variant] = tuple(Variant),
    paper_is_reference: bool = False,
    recycling: bool = False,
) -> dict[str, Any]:
    """Figures of `best` at the top, of the other variants under their names, then one row a problem."""
    variants = list(variants)
    rows = []
    for number, one in enumerate(problems, 1):
        results = {}
        for v in variants:
            try:
                results[v] = _timed(one.problem, deadlines.of(v), v)
            except VerificationError as error:
                say(f"{one.name}: {v.value} broke the problem: {error}")
        row = _row(one, results, paper_is_reference=paper_is_reference)
        if recycling:
            for v in (Variant.BEST, Variant.PAPER):
                if v in results:
                    row[v.value]["node_recycling"] = _recycling(
                        one.problem, results[v][0], deadlines.of(v), v
                    )
        rows.append(row)
        costs = ", ".join(f"{v.value} {s.cost_per_hour:.5g}" for v, (s, _) in results.items())
        say(f"{number}/{len(problems)} {one.name}: {costs}, reference {row['reference_cost']}")
    summaries = {v.value: _summary(rows, v.value) for v in variants}
    top = summaries.pop(Variant.BEST.value, {})
    return top | {"problems": len(rows)} | summaries | {"rows": rows}


def _timed(problem: Problem, deadline_s: float, variant: Variant) -> tuple[Solution, float]:
    started_s = time.monotonic()
    solution = solve(problem, deadline_s, variant)
    return solution, time.monotonic() - started_s


def _row(
    one: BenchProblem, results: dict[Variant, tuple[Solution, float]], *, paper_is_reference: bool
) -> dict[str, Any]:
    cost, seconds = one.reference_cost, one.reference_seconds
    if paper_is_reference and Variant.PAPER in results:
        cost, seconds = results[Variant.PAPER][0].cost_per_hour, results[Variant.PAPER][1]
    bound = max([one.reference_bound, *(s.lower_bound_per_hour for s, _ in results.values())])
    row: dict[str, Any] = {
        "problem": one.name,
        "apps": len(one.problem.apps),
        "classes": len(one.problem.classes),
        "reference_cost": cost,
        "reference_seconds": seconds,
        "best_known_bound": bound,
    }
    for variant, (solution, took_s) in results.items():
        allocation = solution.allocation
        row[variant.value] = {
            "cost": solution.cost_per_hour,
            "lower_bound": solution.lower_bound_per_hour,
            "cost_ratio": solution.cost_per_hour / cost if cost else None,
            "bound_ratio": solution.cost_per_hour / bound if bound else None,
            "seconds": took_s,
            "nodes": len(allocation.nodes),
            "deadline_reached": solution.deadline_reached,
            "fault_tolerance": secondary.fault_tolerance(one.problem, allocation),
            "load_balance": secondary.load_balance(one.problem, allocation),
            "isolation": secondary.isolation(one.problem, allocation),
        }
    return row


def _summary(rows: Sequence[dict[str, Any]], variant: str) -> dict[str, Any]:
    solved = [row for row in rows if variant in row]
    mine = [row[variant] for row in solved]
    compared = [row for row in solved if row[variant]["cost_ratio"] is not None]
    ratios = [row[variant]["cost_ratio"] for row in compared]
    seconds = [one["seconds"] for one in mine]
    summary = {
        "cost_ratio_total": _ratio(
            sum(row[variant]["cost"] for row in compared), sum(row["reference_cost"] for row in compared)
        ),
        "cost_ratio_mean": fmean(ratios) if ratios else None,
        "cost_ratio_worst": max(ratios, default=None),
        "bound_ratio_mean": _mean(mine, "bound_ratio"),
        "seconds_mean": fmean(seconds) if seconds else None,
        "seconds_worst": max(seconds, default=None),
        "unsolved": len(rows) - len(solved),
        "compared": len(compared),
    }
    for metric in ("fault_tolerance", "load_balance", "isolation", "node_recycling"):
        value = _mean(mine, metric)
        if value is not None:
            summary[metric] = value
    return summary


def _recycling(problem: Problem, before: Solution, deadline_s: float, variant: Variant) -> float:
    grown = replace(
        problem, apps=tuple(replace(app, workload=app.workload * _GROWTH) for app in problem.apps)
    )
    after, _ = _timed(grown, deadline_s, variant)
    return secondary.node_recycling(before.allocation, after.allocation, problem)


def _mean(results: Sequence[dict[str, Any]], key: str) -> float | None:
    values = [one[key] for one in results if one.get(key) is not None]
    return fmean(values) if values else None


def _ratio(ours: float, theirs: float) -> float | None:
    return ours / theirs if theirs else None


def _rows(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    try:
        with path.open(newline="") as file:
            rows = csv.DictReader(file)
            missing = [column for column in columns if column not in (rows.fieldnames or ())]
            if missing:
                raise InvalidProblem(f"{path}: column {missing[0]!r} is missing")
            return list(rows)
    except OSError as error:
        raise InvalidProblem(f"{path}: {error.strerror}") from error


def _number(row: dict[str, str], column: str) -> float | None:
    """None for a figure that the authors' program did not reach."""
    try:
        return float(row[column]) if row[column] else None
    except ValueError as error:
        raise InvalidProblem(f"{column} is {row[column]!r} in {row}, it must be a number") from error
