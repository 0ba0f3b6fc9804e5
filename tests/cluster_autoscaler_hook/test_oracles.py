"""Every variant against an exact solver on small random problems, and what must hold for any problem."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_autoscaler_hook.model import Problem, Solution
from cluster_autoscaler_hook.solver import Variant, solve
from cluster_autoscaler_hook.verifier import violations
from tests.cluster_autoscaler_hook.builders import small_problem
from tests.cluster_autoscaler_hook.complete_ilp import cheapest_by_patterns, cheapest_by_slots

NEVER_S = 60.0
INSTANCES = 120

problems = st.randoms(use_true_random=False).map(small_problem)


@cache
def instance(seed: int) -> tuple[Problem, float]:
    problem = small_problem(Random(seed))
    return problem, cheapest_by_patterns(problem)


def check(problem: Problem, solution: Solution) -> None:
    assert violations(problem, solution.allocation) == []
    assert solution.cost_per_hour == pytest.approx(solution.allocation.cost_per_hour(problem))
    assert solution.lower_bound_per_hour <= solution.cost_per_hour * (1 + 1e-6)


@pytest.mark.parametrize("variant", Variant)
def test_no_variant_beats_the_complete_ilp_and_no_bound_exceeds_it(variant: Variant) -> None:
    for seed in range(INSTANCES):
        problem, cheapest = instance(seed)
        solution = solve(problem, NEVER_S, variant)
        check(problem, solution)
        assert solution.cost_per_hour >= cheapest * (1 - 1e-6), seed
        assert solution.lower_bound_per_hour <= cheapest * (1 + 1e-6), seed


def test_the_two_formulations_of_the_oracle_agree() -> None:
    compared = 0
    for seed in range(INSTANCES):
        problem, cheapest = instance(seed)
        chains = all(
            large % small == 0 for c in problem.containers.values() for small, large in pairwise(c.levels)
        )
        slots = int(cheapest / min(c.price_per_hour for c in problem.classes) + 1e-6)
        if chains and slots <= 4:
            assert cheapest_by_slots(problem, slots) == pytest.approx(cheapest), seed
            compared += 1
    assert compared >= 10


@pytest.mark.parametrize("variant", Variant)
@settings(max_examples=25, deadline=None)
@given(problem=problems)
def test_an_answer_is_feasible_and_not_below_its_bound(variant: Variant, problem: Problem) -> None:
    check(problem, solve(problem, NEVER_S, variant))


@pytest.mark.parametrize("variant", Variant)
@settings(max_examples=15, deadline=None)
@given(problem=problems, random=st.randoms(use_true_random=False))
def test_the_order_of_apps_and_classes_does_not_matter_to_correctness(
    variant: Variant, problem: Problem, random: Random
) -> None:
    apps = tuple(random.sample(problem.apps, len(problem.apps)))
    classes = tuple(random.sample(problem.classes, len(problem.classes)))
    permuted = replace(problem, apps=apps, classes=classes)
    one, other = solve(problem, NEVER_S, variant), solve(permuted, NEVER_S, variant)
    check(permuted, other)
    assert other.cost_per_hour >= one.lower_bound_per_hour * (1 - 1e-6)


@pytest.mark.parametrize("variant", Variant)
@settings(max_examples=15, deadline=None)
@given(problem=problems, power=st.integers(-4, 6))
def test_prices_in_another_unit_give_the_same_nodes(variant: Variant, problem: Problem, power: int) -> None:
    """A power of two, which floating point scales without rounding."""
    scaled = replace(
        problem,
        classes=tuple(replace(c, price_per_hour=c.price_per_hour * 2.0**power) for c in problem.classes),
    )
    one, other = solve(problem, NEVER_S, variant), solve(scaled, NEVER_S, variant)
    assert other.cost_per_hour == pytest.approx(one.cost_per_hour * 2.0**power)


@pytest.mark.parametrize("variant", Variant)
def test_the_same_problem_gives_the_same_answer(variant: Variant) -> None:
    problem, _ = instance(7)
    assert solve(problem, NEVER_S, variant).allocation == solve(problem, NEVER_S, variant).allocation


@pytest.mark.parametrize("variant", Variant)
def test_no_time_is_still_an_answer(variant: Variant) -> None:
    problem, _ = instance(3)
    check(problem, solve(problem, 0.0, variant))


@pytest.mark.parametrize("variant", Variant)
def test_no_workload_needs_no_node(variant: Variant) -> None:
    problem, _ = instance(3)
    idle = replace(problem, apps=tuple(replace(app, workload=0.0) for app in problem.apps))
    solution = solve(idle, NEVER_S, variant)
    assert (solution.allocation.nodes, solution.cost_per_hour) == ((), 0)
