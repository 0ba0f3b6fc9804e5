"""Sets of containers that may be kept, against every set there is."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given, settings

from combofunc.planner.kept_rows import kept_rows
from combofunc.planner.problem import prepare
from combofunc.planner.work import Work
from experiments.planner.random_problems import RandomProblem
from tests.combofunc.planner.builders import problems


@settings(max_examples=100)
@given(problems(most_containers=12))
def test_none_is_always_among_them_and_leaves_the_whole_node(problem: RandomProblem) -> None:
    """The planner takes from it how much fits on a node at most; also where sets are left out."""
    prepared = prepare(problem.request)
    nodes = range(len(prepared.names))
    if not nodes:
        return
    rows = kept_rows(prepared, nodes, worth=1.0, sets_kept=2, work=Work(math.inf))
    for at in nodes:
        own = [prepared.containers[c].size for c in prepared.own.get(at, ())]
        here = rows.node == at
        assert rows.cpu_left[here].max() == prepared.cpu_free[at] + sum(s.cpu_millicores for s in own)
        assert rows.memory_left[here].max() == prepared.memory_free[at] + sum(s.memory_bytes for s in own)


@settings(max_examples=100)
@given(problems())
def test_every_set_has_one_as_good_and_a_row_says_what_it_leaves(problem: RandomProblem) -> None:
    prepared = prepare(problem.request)
    nodes = range(len(prepared.names))
    if not nodes:
        return
    rows = kept_rows(prepared, nodes, worth=1.0, sets_kept=10_000, work=Work(math.inf))
    sizes = [container.size for container in prepared.containers]
    for at in nodes:
        own = prepared.own.get(at, ())

        def numbers(kept: list[int], own: tuple[int, ...] = own) -> tuple[int, int, int, int]:
            """Lower is better."""
            return (
                -sum(sizes[c].concurrency for c in kept),
                sum(sizes[c].cpu_millicores for c in kept),
                sum(sizes[c].memory_bytes for c in kept),
                -sum(prepared.resizable[c] for c in own if c not in kept),
            )

        found = []
        for row in (rows.node == at).nonzero()[0].tolist():
            kept = rows.kept(row)
            assert all(prepared.keepable[c] and c in own for c in kept)
            found.append(numbers(kept))
            assert (-rows.concurrency[row], -rows.spare[row]) == (found[-1][0], found[-1][3])
            assert rows.pods_left[row] == prepared.pods_free[at] + len(own) - len(kept)
            cost = prepared.cpu_price[at] * found[-1][1] + prepared.memory_price[at] * found[-1][2]
            assert rows.cost[row] == pytest.approx(cost)
        keepable = [c for c in own if prepared.keepable[c]]
        for chosen in product((False, True), repeat=len(keepable)):
            wanted = numbers([c for c, kept in zip(keepable, chosen, strict=True) if kept])
            # As many kept or fewer of better kinds: no less concurrency, no more held, no fewer to resize.
            assert any(all(a <= b for a, b in zip(n, wanted, strict=True)) for n in found)
