"""An integer linear program, solved by HiGHS: one thread and a fixed seed, so that it repeats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import highspy
import numpy as np

__all__ = ["AtLeast", "Outcome", "minimise"]

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
    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # their stub leaves it out
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("parallel", "off")
    solver.setOptionValue("random_seed", _SEED)
    solver.setOptionValue("mip_rel_gap", relative_gap)
    if relative_gap == 0.0:
        solver.setOptionValue("mip_abs_gap", 0.0)
    if math.isfinite(time_limit_s):
        solver.setOptionValue("time_limit", time_limit_s)
    solver.passModel(_model(costs, upper, constraints))
    solver.run()
    status, info = solver.getModelStatus(), solver.getInfo()
    if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kTimeLimit):
        raise RuntimeError(f"HiGHS: {solver.modelStatusToString(status)}")
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    values = tuple(round(value) for value in solver.getSolution().col_value) if found else None
    return Outcome(values, float(info.mip_dual_bound), status == highspy.HighsModelStatus.kTimeLimit)


def _model(costs: Sequence[float], upper: Sequence[float], constraints: Sequence[AtLeast]) -> highspy.HighsLp:
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(costs), len(constraints)
    lp.col_cost_ = np.array(costs, dtype=np.float64)
    lp.col_lower_ = np.zeros(len(costs))
    lp.col_upper_ = np.array(upper, dtype=np.float64)
    lp.integrality_ = [highspy.HighsVarType.kInteger] * len(costs)
    lp.row_lower_ = np.array([row.least for row in constraints], dtype=np.float64)
    lp.row_upper_ = np.full(len(constraints), highspy.kHighsInf)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.cumsum([0] + [len(row.coefficients) for row in constraints]).astype(np.int32)
    lp.a_matrix_.index_ = np.array([i for row in constraints for i in row.coefficients], dtype=np.int32)
    lp.a_matrix_.value_ = np.array(
        [value for row in constraints for value in row.coefficients.values()], dtype=np.float64
    )
    return lp
