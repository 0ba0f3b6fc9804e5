"""The exact problem as an integer program, solved by HiGHS. The oracle of benches and tests.

Shares no code with the planners except model.py. If the target is out of reach, it solves twice: for the
highest concurrency that fits, then for the least cost of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from cluster_model.cost import price
from combofunc.planner.model import Node, PlanRequest, Size

__all__ = ["Best", "best"]

_GIB = 2**30
_INFEASIBLE = 2  # status of scipy's milp


@dataclass(frozen=True, slots=True)
class Best:
    concurrency: int  # at most the target
    cost: float
    proven: bool  # False: out of time; `cost` is then a lower bound


class _Program:
    """Collects the columns and rows of an integer program."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.upper: list[float] = []
        self.whole: list[int] = []
        self.concurrency: list[float] = []
        self.cells: list[tuple[int, int, float]] = []
        self.limits: list[float] = []

    def column(self, cost: float, upper: float, *, concurrency: int = 0, whole: bool = True) -> int:
        self.costs.append(cost)
        self.upper.append(upper)
        self.whole.append(int(whole))
        self.concurrency.append(concurrency)
        return len(self.costs) - 1

    def row(self, cells: Sequence[tuple[int, float]], most: float) -> None:
        self.cells += [(len(self.limits), column, value) for column, value in cells]
        self.limits.append(most)

    def solve(
        self, costs: Sequence[float], least: float, seconds: float, *, relaxed: bool
    ) -> tuple[int, float, float, float]:
        """(status, concurrency, objective, bound) with at least `least` concurrency."""
        rows, columns, values = zip(*self.cells, strict=True) if self.cells else ((), (), ())
        shape = (len(self.limits), len(self.costs))
        limits = [LinearConstraint(np.array([self.concurrency]), least, np.inf)]
        if self.limits:
            limits.append(
                LinearConstraint(
                    coo_array((values, (rows, columns)), shape=shape).tocsr(), -np.inf, self.limits
                )
            )
        found = milp(
            costs,
            integrality=np.zeros(len(self.whole)) if relaxed else self.whole,
            bounds=Bounds(0, self.upper),
            constraints=limits,
            options={"mip_rel_gap": 0.0, "time_limit": seconds},
        )
        if found.x is None:
            return found.status, 0, np.inf, np.inf
        bound = found.fun if relaxed or found.mip_dual_bound is None else found.mip_dual_bound
        return found.status, round(float(np.dot(self.concurrency, found.x))), float(found.fun), float(bound)


def best(request: PlanRequest, *, seconds: float = 60.0, relaxed: bool = False) -> Best:
    """`relaxed`: allow fractions of containers, for a bound on problems too large to solve."""
    program, target = _program(request), request.target
    if not program.costs:
        return Best(0, 0.0, True)
    status, _, cost, bound = program.solve(program.costs, target, seconds, relaxed=relaxed)
    if status != _INFEASIBLE:
        return Best(target, cost if status == 0 else bound, status == 0)
    status, _, fits, _ = program.solve([-c for c in program.concurrency], 0, seconds, relaxed=relaxed)
    if status != 0:
        return Best(target, 0.0, False)
    most = round(-fits)
    status, _, cost, bound = program.solve(program.costs, most, seconds, relaxed=relaxed)
    return Best(most, cost if status == 0 else bound, status == 0)


def _program(request: PlanRequest) -> _Program:
    program = _Program()
    for node in request.nodes:
        _add_node(program, node, request)
    listed = {node.name for node in request.nodes}
    for container in request.containers:
        if container.node not in listed and container.size in request.sizes:
            cost = request.weights.price_weight * _units(container.size, 1.0, 1.0)
            program.column(cost, 1, concurrency=container.size.concurrency)
    return program


def _units(size: Size, cpu_beta: float, memory_beta: float) -> float:
    return cpu_beta * size.cpu_millicores / 1000 + memory_beta * size.memory_bytes / _GIB


def _add_node(program: _Program, node: Node, request: PlanRequest) -> None:
    sizes, weights, contention = request.sizes, request.weights, request.contention
    own = [container for container in request.containers if container.node == node.name]

    def beta(free: int, capacity: int) -> float:
        return price(min(max(free / capacity, 0.0), 1.0) if capacity > 0 else 0.0, weights.price_swing)

    cpu_beta = beta(node.cpu_free_millicores, node.cpu_millicores)
    memory_beta = beta(node.memory_free_bytes, node.memory_bytes)
    there: list[tuple[int, Size]] = []  # columns and their sizes
    resized: list[int] = []  # columns of resized containers

    def column(size: Size, upper: int) -> int:
        cost = weights.price_weight * _units(size, cpu_beta, memory_beta)
        there.append((program.column(cost, upper, concurrency=size.concurrency), size))
        return there[-1][0]

    def in_turn(columns: Sequence[int], turns_s: Sequence[float]) -> None:
        turns = [program.column(turn_s, 1, whole=False) for turn_s in turns_s]
        program.row([*((c, 1.0) for c in columns), *((t, -1.0) for t in turns)], 0.0)

    for kind in sorted({(c.size, c.resizable) for c in own}, key=repr):
        size, resizable = kind
        count = sum((c.size, c.resizable) == kind for c in own)
        fates = [column(size, count)] if size in sizes else []
        if resizable and weights.in_place:
            changed = [column(to, count) for to in sizes if to != size]
            fates += changed
            resized += changed
        program.row([(fate, 1.0) for fate in fates], count)
    # Later turns cost more, so they are taken in order: the i-th resize, the i-th creation beside k_n others.
    in_turn(resized, [node.tau_resize_s * contention.resize.slowdown(i + 1) for i in range(len(own))])
    cpu = node.cpu_free_millicores + sum(c.size.cpu_millicores for c in own)
    memory = node.memory_free_bytes + sum(c.size.memory_bytes for c in own)
    pods = node.pods_free + len(own)
    turns = min(pods, request.target)
    if smallest := min(size.cpu_millicores for size in sizes):
        turns = min(turns, cpu // smallest)
    created = [column(size, turns) for size in sizes] if node.accepts and turns > 0 else []
    slowdowns = (contention.creation.slowdown(node.creating + i) for i in range(1, turns + 1))
    in_turn(created, [node.tau_create_s * slowdown + node.image_pull_s for slowdown in slowdowns])
    new = [*resized, *created]
    # In cores and GiB: values in bytes exceed the solver's tolerances.
    for free, room, unit, holds, changed in (
        (node.cpu_free_millicores, cpu, 1000, [s.cpu_millicores for _, s in there], new),
        (node.memory_free_bytes, memory, _GIB, [s.memory_bytes for _, s in there], new),
        (node.pods_free, pods, 1, [1 for _ in there], created),
    ):
        cells = [(c, value / unit) for (c, _), value in zip(there, holds, strict=True)]
        if free < 0:  # over-committed: either nothing changes here, or all must fit
            unchanged = program.column(0.0, 1)
            most = float(len(own) + max(turns, 0))
            program.row([*((c, 1.0) for c in changed), (unchanged, most)], most)
            cells.append((unchanged, free / unit))
        program.row(cells, room / unit)
