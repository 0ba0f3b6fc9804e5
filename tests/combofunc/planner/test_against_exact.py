"""The oracle: the exact problem by HiGHS on small random problems of every kind."""

from __future__ import annotations

import pytest

from combofunc.planner import exact, planning
from combofunc.planner.verifier import violations
from experiments.planner.random_problems import KINDS, small_problems

COUNT = 208


@pytest.fixture(scope="module")
def excesses() -> dict[str, list[float]]:
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for problem in small_problems(7, COUNT):
        plan, best = planning.plan(problem.request), exact.best(problem.request)
        assert best.proven
        assert not violations(plan, problem.request)
        assert min(plan.concurrency, problem.target) == best.concurrency
        found[problem.kind].append((plan.cost - best.cost) / max(best.cost, 1e-3))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_plan_is_the_best(excesses: dict[str, list[float]], kind: str) -> None:
    assert len(excesses[kind]) == COUNT // len(KINDS)
    assert max(excesses[kind]) <= 1e-4  # 0.01 %; HiGHS has tolerances of its own


def test_the_mean_excess_is_nothing(excesses: dict[str, list[float]]) -> None:
    every = [excess for of_kind in excesses.values() for excess in of_kind]
    assert sum(every) / len(every) <= 1e-5
    assert min(every) >= -1e-4, "nothing is better than the best"
