"""Integer programs as in the paper: costs, upper limits, and sums with a lower limit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster_autoscaler_hook.solver.linear_program import LinearProgram

__all__ = ["AtLeast", "Outcome", "minimise"]

# HiGHS's default. With the paper's gap of 2 % it decides which of many answers is found, and so the recorded
# figures of this variant.
_SEED = 0


@dataclass(frozen=True, slots=True)
class AtLeast:
    """One constraint: the sum of coefficient * variable is at least `least`."""

    coefficients: Mapping[int, float]
    least: float


@dataclass(frozen=True, slots=True)
class Outcome:
    values: tuple[int, ...] | None  # None: the time ended before any solution was found
    bound: float  # no solution has a lower objective; -inf when nothing is known
    time_limit_reached: bool


def minimise(
    costs: Sequence[float],
    upper: Sequence[float],
    constraints: Sequence[AtLeast],
    *,
    relative_gap: float = 0.0,
    time_limit_s: float = math.inf,
) -> Outcome:
    """Minimise costs * x, 0 <= x <= upper, x integer. The program must have a solution."""
    if not costs:
        return Outcome((), 0.0, time_limit_reached=False)
    if time_limit_s <= 0:
        return Outcome(None, -math.inf, time_limit_reached=True)
    columns: list[dict[int, float]] = [{} for _ in costs]
    for row, constraint in enumerate(constraints):
        for column, coefficient in constraint.coefficients.items():
            columns[column][row] = coefficient
    program = LinearProgram([c.least for c in constraints], [math.inf] * len(constraints), seed=_SEED)
    for cost, limit, rows in zip(costs, upper, columns, strict=True):
        program.add(cost, list(rows), list(rows.values()), upper=limit, integer=True)
    found = program.solve(time_limit_s, relative_gap)
    if found.values is None and not found.time_limit_reached:
        raise RuntimeError(f"HiGHS: {found.status}")
    values = None if found.values is None else tuple(round(value) for value in found.values)
    return Outcome(values, found.bound, found.time_limit_reached)
