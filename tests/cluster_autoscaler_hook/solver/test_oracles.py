"""Every variant against an exact solver on small random problems, and what must hold for any problem."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_autoscaler_hook.solver.model import App, Container, InstanceClass, Problem, Solution
from cluster_autoscaler_hook.solver.solve import Variant, solve
from cluster_autoscaler_hook.solver.verifier import violations
from tests.cluster_autoscaler_hook.solver.builders import odd_levels_problem, small_problem
from tests.cluster_autoscaler_hook.solver.complete_ilp import cheapest_by_patterns, cheapest_by_slots

NEVER_S = 60.0
INSTANCES = 120
OF_BEST = range(1020, 1060)

problems = st.randoms(use_true_random=False).map(small_problem)


@cache
def instance(seed: int) -> tuple[Problem, float]:
    problem = small_problem(Random(seed))
    return problem, cheapest_by_patterns(problem)


def check(problem: Problem, solution: Solution) -> None:
    assert violations(problem, solution.allocation) == []
    assert solution.cost_per_hour == pytest.approx(solution.allocation.cost_per_hour(problem))
    assert solution.lower_bound_per_hour <= solution.cost_per_hour * (1 + 1e-6)


def check_against(cheapest: float, problem: Problem, solution: Solution) -> None:
    check(problem, solution)
    assert solution.cost_per_hour >= cheapest * (1 - 1e-6)
    assert solution.lower_bound_per_hour <= cheapest * (1 + 1e-6)


@pytest.mark.parametrize("variant", Variant)
def test_no_variant_beats_the_complete_ilp_and_no_bound_exceeds_it(variant: Variant) -> None:
    """The next test has further problems for `best`, which takes longest."""
    for seed in range(INSTANCES - len(OF_BEST) if variant is Variant.BEST else INSTANCES):
        problem, cheapest = instance(seed)
        check_against(cheapest, problem, solve(problem, NEVER_S, variant))


def test_best_finds_the_optimum_of_nearly_all_small_problems() -> None:
    excess = []
    for seed in OF_BEST:
        problem, cheapest = instance(seed)
        solution = solve(problem, NEVER_S)
        check_against(cheapest, problem, solution)
        excess.append(solution.cost_per_hour / cheapest - 1)
    assert sum(e > 1e-6 for e in excess) <= 1
    assert np.mean(excess) <= 0.003


def test_the_two_formulations_of_the_oracle_agree() -> None:
    compared = 0
    for seed in range(INSTANCES):
        problem, cheapest = instance(seed)
        slots = int(cheapest / min(c.price_per_hour for c in problem.classes) + 1e-6)
        if slots <= 4:
            assert cheapest_by_slots(problem, slots) == pytest.approx(cheapest), seed
            compared += 1
    assert compared >= 10


@pytest.mark.parametrize("variant", Variant)
@settings(max_examples=25)
@given(problem=st.randoms(use_true_random=False).map(odd_levels_problem))
def test_any_aggregation_levels_have_an_answer(variant: Variant, problem: Problem) -> None:
    check(problem, solve(problem, 0.2, variant))


@pytest.mark.parametrize("seed", range(12))
def test_odd_aggregation_levels_are_used_as_well_as_can_be(seed: int) -> None:
    problem = odd_levels_problem(Random(seed))
    assert solve(problem, 20.0).cost_per_hour <= cheapest_by_patterns(problem) * 1.01


@pytest.mark.parametrize("variant", Variant)
@settings(max_examples=25)
@given(problem=problems, random=st.randoms(use_true_random=False))
def test_apps_and_classes_in_any_order_have_a_correct_answer(
    variant: Variant, problem: Problem, random: Random
) -> None:
    apps = tuple(random.sample(problem.apps, len(problem.apps)))
    classes = tuple(random.sample(problem.classes, len(problem.classes)))
    permuted = replace(problem, apps=apps, classes=classes)
    check_against(cheapest_by_patterns(problem), permuted, solve(permuted, NEVER_S, variant))


@pytest.mark.parametrize("variant", Variant)
@settings(max_examples=15)
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
@pytest.mark.parametrize("workload", [1e-9, 1e-30, 1e-320])
def test_a_tiny_workload_needs_a_container(variant: Variant, workload: float) -> None:
    """Beside an ordinary one: a solver's tolerance is no reason to leave an app out."""
    container = Container(1.0, 1.0, (1, 2), (1.0, 1.0))
    classes = (InstanceClass("small", "F", 2.0, 4.0, 0.1), InstanceClass("large", "F", 8.0, 16.0, 0.4))
    apps = (App("tiny", workload), App("ordinary", 5.0))
    problem = Problem(apps, classes, {(app.name, "F"): container for app in apps})
    solution = solve(problem, NEVER_S, variant)
    check(problem, solution)
    assert sum(node.containers.get("tiny", 0) for node in solution.allocation.nodes) == 1
    alone = solve(replace(problem, apps=apps[:1]), NEVER_S, variant)
    assert [node.containers for node in alone.allocation.nodes] == [{"tiny": 1}]


@pytest.mark.parametrize("variant", Variant)
def test_no_workload_needs_no_node(variant: Variant) -> None:
    problem, _ = instance(3)
    idle = replace(problem, apps=tuple(replace(app, workload=0.0) for app in problem.apps))
    solution = solve(idle, NEVER_S, variant)
    assert (solution.allocation.nodes, solution.cost_per_hour) == ((), 0)
