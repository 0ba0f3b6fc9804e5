"""Algorithm 1: take the cheapest candidate per unit of concurrency until Q' is reached.

Read as docs/decisions/reading-the-papers.md says.

It begins with X = 0 (line 1), so a running container counts only once it is chosen. Keeping a container costs
lambda * B, resizing one tau_u * slowdown(r_n + 1) + lambda * B, creating one tau_c * slowdown(k_n + 1) + I +
lambda * B (eq. 6, cluster_model/contention.py), each divided by the concurrency it leads to. r_n counts the
plan's resizes on the node. Containers not chosen are removed last; until then they hold their resources.
Containers that can never stay are removed first. Ties: keep, resize, create, then by name.

The printed loop prices every node and size in every round. Here a node's best candidate is priced again only
when something changes on that node; a test compares the plans with the printed loop. The loop stops after a
limit of work. Containers not decided by then stay as they are.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from combofunc.planner.choice import Choice, plan_of
from combofunc.planner.model import Plan, PlanRequest, Size
from combofunc.planner.problem import Floats, Problem, prepare
from combofunc.planner.work import LIST_ITEM, CutShort, Work

__all__ = ["Outcome", "choose", "plan"]

_KEEP, _RESIZE, _CREATE = 0, 1, 2
# D/Q, kind, node, container (-1: a new one), size
_Candidate = tuple[float, int, int, int, int]
# About half a second: 10,000 new containers of 64 sizes.
_MOST_WORK = 20_000_000


def plan(request: PlanRequest) -> Plan:
    problem = prepare(request)
    return plan_of(problem, choose(problem).choice)


@dataclass(frozen=True, slots=True)
class Outcome:
    choice: Choice
    short: bool
    last_cost: float  # D/Q of the last step: what a unit of concurrency is worth here
    first_costs: Floats  # D_np of a first creation, by node and size; infinite if it does not fit
    cut_short: bool


def _first_costs(problem: Problem, prices: Floats) -> Floats:
    cpu = np.array([size.cpu_millicores for size in problem.sizes], dtype=float)
    memory = np.array([size.memory_bytes for size in problem.sizes], dtype=float)
    turn_s = problem.tau_create_s * problem.creation.each[problem.creating + 1] + problem.image_pull_s
    room = problem.accepts & (problem.pods_free >= 1)
    fits = (cpu <= problem.cpu_free[:, None]) & (memory <= problem.memory_free[:, None]) & room[:, None]
    costs: Floats = turn_s[:, None] + prices
    np.putmask(costs, ~fits, np.inf)
    return costs


def choose(problem: Problem, most_work: float = _MOST_WORK) -> Outcome:
    """Algorithm 1."""
    work, cut_short = Work(most_work), False
    nodes: dict[int, _NodeState] = {}
    prices = problem.prices(slice(None))
    costs = _first_costs(problem, prices)
    untouched = _first_candidates(problem, costs)
    fresh = next(untouched, None)
    heap: list[_Candidate] = []
    for at in problem.own:
        nodes[at] = _NodeState(problem, at, prices[at].tolist())
        if best := nodes[at].best():
            heap.append(best)
    heapq.heapify(heap)
    kept: list[int] = []
    resized: list[tuple[int, int]] = []
    created: list[tuple[int, int]] = []
    reached, last_cost = 0, 0.0
    while reached < problem.target and (heap or fresh):
        try:
            work.spend(LIST_ITEM * len(problem.sizes))
        except CutShort:
            cut_short = True
            kept += [c for state in nodes.values() for c in state.undecided if problem.keepable[c]]
            break
        if fresh and (not heap or fresh < heap[0]):
            last_cost, kind, at, container, size = fresh
            fresh = next(untouched, None)
            nodes[at] = _NodeState(problem, at, prices[at].tolist())
        else:
            last_cost, kind, at, container, size = heapq.heappop(heap)
        state = nodes[at]
        if kind == _KEEP:
            kept.append(container)
            reached += problem.containers[container].size.concurrency
        else:
            reached += problem.sizes[size].concurrency
            if kind == _RESIZE:
                resized.append((container, size))
            else:
                created.append((at, size))
        state.take(kind, container, size)
        if best := state.best():
            heapq.heappush(heap, best)
    return Outcome(Choice(kept, resized, created), reached < problem.target, last_cost, costs, cut_short)


def _first_candidates(problem: Problem, costs: Floats) -> Iterator[_Candidate]:
    """Best creation on each node without containers of the function, cheapest first."""
    each = costs / np.array([size.concurrency for size in problem.sizes], dtype=float)
    size = np.argmin(each, axis=1)
    lowest = each[np.arange(len(each)), size]
    for at in np.argsort(lowest, kind="stable").tolist():
        if lowest[at] == np.inf:
            return
        if at not in problem.own:
            yield float(lowest[at]), _CREATE, at, -1, int(size[at])


class _NodeState:
    """One node: its free resources, and its containers that are not decided yet."""

    def __init__(self, problem: Problem, at: int, prices: Sequence[float]) -> None:
        self._problem, self._at, self._prices = problem, at, prices
        self._cpu, self._memory = float(problem.cpu_free[at]), float(problem.memory_free[at])
        self._pods = float(problem.pods_free[at]) if problem.accepts[at] else 0.0
        self._creating, self._resizing = int(problem.creating[at]), 0
        self._tau_create_s, self._pull_s = float(problem.tau_create_s[at]), float(problem.image_pull_s[at])
        self.undecided = dict.fromkeys(problem.own.get(at, ()))
        self._to_resize: dict[int, dict[int, None]] = {}  # undecided and resizable, by size
        self._keeps: list[_Candidate] = []
        if self.undecided:
            # This cost stays the same while the plan grows.
            sized = [(c, problem.size_of[c]) for c in self.undecided if problem.keepable[c]]
            keeps = ((prices[s] / problem.sizes[s].concurrency, _KEEP, at, c, -1) for c, s in sized)
            self._keeps = sorted(keeps, reverse=True)
            self._resizes = self._priced_resizes()
            for c in self.undecided:
                if problem.resizable[c]:
                    self._to_resize.setdefault(problem.size_of[c], {})[c] = None
        self._new: _Candidate | None = None
        self._changed = True

    def take(self, kind: int, container: int, size: int) -> None:
        """Apply a candidate (lines 16 to 19)."""
        if kind != _CREATE:
            del self.undecided[container]
            self._to_resize.get(self._problem.size_of[container], {}).pop(container, None)
        if kind == _KEEP:
            # It held its resources before, so other candidates do not change.
            self._changed |= self._new is not None and self._new[3] == container
            return
        self._changed = True
        new = self._problem.sizes[size]
        self._cpu -= new.cpu_millicores
        self._memory -= new.memory_bytes
        if kind == _RESIZE:
            before = self._problem.containers[container].size
            self._cpu += before.cpu_millicores
            self._memory += before.memory_bytes
            self._resizing += 1
            self._resizes = self._priced_resizes()
        else:
            self._pods -= 1
            self._creating += 1

    def best(self) -> _Candidate | None:
        """The cheapest candidate on this node (lines 4 to 15)."""
        while self._keeps and self._keeps[-1][3] not in self.undecided:
            self._keeps.pop()
        if self._changed:
            self._new, self._changed = self._best_new(), False
        return min((c for c in (*self._keeps[-1:], self._new) if c), default=None)

    def _best_new(self) -> _Candidate | None:
        """The cheapest resize or creation."""
        found = list(self._resizings())
        if self._pods >= 1:
            slowdown = float(self._problem.creation.each[self._creating + 1])
            turn_s = self._tau_create_s * slowdown + self._pull_s
            found += [
                ((turn_s + price) / size.concurrency, _CREATE, self._at, -1, i)
                for i, (size, price) in enumerate(zip(self._problem.sizes, self._prices, strict=True))
                if size.cpu_millicores <= self._cpu and size.memory_bytes <= self._memory
            ]
        return min(found, default=None)

    def _priced_resizes(self) -> list[tuple[float, int, Size]]:
        """(D/Q, index, size) of the next resize to each size, cheapest first."""
        slowdown = float(self._problem.resize.each[self._resizing + 1])
        resize_s = float(self._problem.tau_resize_s[self._at]) * slowdown
        return sorted(
            ((resize_s + price) / to.concurrency, i, to)
            for i, (to, price) in enumerate(zip(self._problem.sizes, self._prices, strict=True))
        )

    def _resizings(self) -> Iterator[_Candidate]:
        for size, alike in self._to_resize.items():
            container = next(iter(alike), None)  # all of one size are alike: take the first
            if container is None:
                continue
            before = self._problem.known_sizes[size]
            cpu, memory = self._cpu + before.cpu_millicores, self._memory + before.memory_bytes
            for cost, i, to in self._resizes:
                if to.cpu_millicores <= cpu and to.memory_bytes <= memory and i != size:
                    yield cost, _RESIZE, self._at, container, i
                    break
