"""A small interface to HiGHS: rows and columns in; values, duals and a valid bound out.

One thread and a fixed seed, so that results repeat. All of FCMA's calls of HiGHS are made here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
    status: str  # as HiGHS says it
    time_limit_reached: bool


class _Column(NamedTuple):
    cost: float
    upper: float
    rows: Sequence[int]
    coefficients: Sequence[float]
    integer: bool


class LinearProgram:
    """A minimisation. Add rows first, then columns; columns may be added between solves.

    `small` switches off steps of HiGHS that cost more than they gain on a program of two rows."""

    def __init__(
        self, row_lower: Sequence[float], row_upper: Sequence[float], *, small: bool = False, seed: int = 1
    ) -> None:
        self._highs = highspy.Highs()  # type: ignore[no-untyped-call]  # their stub leaves it out
        for option, value in (_QUIET | {"random_seed": seed} | (_SMALL if small else {})).items():
            self._highs.setOptionValue(option, value)
        self._integer = False
        rows = len(row_lower)
        self._highs.addRows(
            rows, np.array(row_lower, dtype=float), np.array(row_upper, dtype=float),
            0, np.zeros(rows, dtype=np.int32), np.zeros(0, dtype=np.int32), np.zeros(0),
        )  # fmt: skip
        self.columns = 0
        self._waiting: list[_Column] = []

    def add(
        self,
        cost: float,
        rows: Sequence[int],
        coefficients: Sequence[float],
        *,
        upper: float = math.inf,
        integer: bool = False,
    ) -> None:
        self._waiting.append(_Column(cost, upper, rows, coefficients, integer))
        self.columns += 1

    def _add_waiting(self) -> None:
        """Add all new columns at once: one by one would take longer than most solves."""
        columns, self._waiting = self._waiting, []
        if not columns:
            return
        lengths = [len(column.rows) for column in columns]
        starts = np.concatenate(([0], np.cumsum(lengths[:-1]))).astype(np.int32)
        self._highs.addCols(
            len(columns),
            np.array([column.cost for column in columns], dtype=float),
            np.zeros(len(columns)),
            np.array([column.upper for column in columns], dtype=float),
            sum(lengths),
            starts,
            np.array([row for column in columns for row in column.rows], dtype=np.int32),
            np.array([value for column in columns for value in column.coefficients], dtype=float),
        )
        first = self.columns - len(columns)
        whole = np.array([first + k for k, column in enumerate(columns) if column.integer], dtype=np.int32)
        if len(whole):
            kinds = np.full(len(whole), int(highspy.HighsVarType.kInteger), dtype=np.uint8)
            self._highs.changeColsIntegrality(len(whole), whole, kinds)
            self._integer = True

    def set_costs(self, costs: NDArray[np.float64]) -> None:
        self._add_waiting()
        self._highs.changeColsCost(self.columns, np.arange(self.columns, dtype=np.int32), costs)

    def start_from(self, values: NDArray[np.float64]) -> None:
        """Start the search from this solution."""
        self._add_waiting()
        solution = highspy.HighsSolution()
        solution.col_value = list(values)
        self._highs.setSolution(solution)

    def solve(self, seconds: float, gap: float = 1e-6, nodes: int | None = None) -> Outcome:
        """`gap` (relative; 0 means proven optimal) and `nodes` end the search of an integer program."""
        self._add_waiting()
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
