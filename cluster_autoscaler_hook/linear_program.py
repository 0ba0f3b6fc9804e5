"""HiGHS behind the few calls we need: rows and columns in, values, duals and an honest bound out.

One thread and a fixed seed, so that it repeats. All that FCMA asks of HiGHS passes through here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import highspy
import numpy as np
from numpy.typing import NDArray

__all__ = ["LinearProgram", "Outcome"]


_Options = dict[str, bool | int | float | str]
_QUIET: _Options = {"output_flag": False, "threads": 1, "parallel": "off"}
_SMALL: _Options = {
    "mip_detect_symmetry": False,
    "mip_heuristic_effort": 0.01,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_root_reduced_cost": False,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """`values` is None when nothing feasible was found; `bound` holds in any case."""

    values: NDArray[np.float64] | None
    objective: float
    bound: float
    duals: NDArray[np.float64] | None
    status: str  # in HiGHS's words
    time_limit_reached: bool


class LinearProgram:
    """Minimise; rows first, then columns, which may be added between solves.

    `small` leaves out what costs HiGHS more than it gains on a program of two rows."""

    def __init__(
        self, row_lower: Sequence[float], row_upper: Sequence[float], *, small: bool = False, seed: int = 1
    ) -> None:
        self._highs = highspy.Highs()  # type: ignore[no-untyped-call]  # their stub leaves it out
        for option, value in (_QUIET | {"random_seed": seed} | (_SMALL if small else {})).items():
            self._highs.setOptionValue(option, value)
        self._integer = False
        empty_i, empty_f = np.array([], dtype=np.int32), np.array([], dtype=float)
        for lower, upper in zip(row_lower, row_upper, strict=True):
            self._highs.addRow(lower, upper, 0, empty_i, empty_f)
        self.columns = 0

    def add(
        self,
        cost: float,
        rows: Sequence[int],
        coefficients: Sequence[float],
        *,
        upper: float = math.inf,
        integer: bool = False,
    ) -> None:
        index, value = np.array(rows, dtype=np.int32), np.array(coefficients, dtype=float)
        self._highs.addCol(cost, 0.0, upper, len(index), index, value)
        if integer:
            self._highs.changeColIntegrality(self.columns, highspy.HighsVarType.kInteger)
            self._integer = True
        self.columns += 1

    def set_costs(self, costs: NDArray[np.float64]) -> None:
        self._highs.changeColsCost(self.columns, np.arange(self.columns, dtype=np.int32), costs)

    def start_from(self, values: NDArray[np.float64]) -> None:
        """A solution to improve on."""
        solution = highspy.HighsSolution()
        solution.col_value = list(values)
        self._highs.setSolution(solution)

    def solve(self, seconds: float, gap: float = 1e-6, nodes: int | None = None) -> Outcome:
        """`gap` (relative; 0 means proven optimal) and `nodes` end the search of an integer program."""
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + max(seconds, 0.0))
        if self._integer:
            self._highs.setOptionValue("mip_rel_gap", gap)
            self._highs.setOptionValue("mip_max_nodes", nodes if nodes is not None else 2**31 - 1)
            if gap == 0.0:
                self._highs.setOptionValue("mip_abs_gap", 0.0)
        self._highs.run()
        info, solution, status = (
            self._highs.getInfo(),
            self._highs.getSolution(),
            self._highs.getModelStatus(),
        )
        feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        optimal = status == highspy.HighsModelStatus.kOptimal
        if self._integer:
            bound = info.mip_dual_bound
        else:
            bound = info.objective_function_value if optimal else -math.inf
        return Outcome(
            np.array(solution.col_value) if feasible else None,
            info.objective_function_value if feasible else math.inf,
            bound if math.isfinite(bound) else -math.inf,
            np.array(solution.row_dual) if optimal and not self._integer else None,
            self._highs.modelStatusToString(status),
            status == highspy.HighsModelStatus.kTimeLimit,
        )
