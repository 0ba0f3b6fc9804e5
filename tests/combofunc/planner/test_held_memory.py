"""Plans with containers that keep their memory: by hand, and whatever the problem."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from combofunc.planner import planning
from combofunc.planner.held_memory import respecting_held_memory
from combofunc.planner.model import Container, PlanRequest, Weights
from combofunc.planner.verifier import violations
from experiments.planner.random_problems import RandomProblem
from tests.combofunc.planner.builders import LARGE, MIB, SIZES, SMALL, node, problems

plan = respecting_held_memory(planning.plan)


def test_what_is_held_is_there_to_grow_into() -> None:
    """Small in cpu alone, on a node without free memory: no other is created."""
    held = Container("pod", "a", SMALL, least_memory_bytes=LARGE.memory_bytes)
    nodes = [node("a", memory_free_bytes=0), node("b")]
    found = plan(PlanRequest(SIZES, nodes, [held], 8))
    assert [(r.container.pod, r.to) for r in found.resized] == [("pod", LARGE)]
    assert found.created == ()
    assert violations(found, PlanRequest(SIZES, nodes, [held], 8)) == []


def test_what_is_held_is_nobody_elses() -> None:
    """Were it free, a middle one would be put beside the small one."""
    held = Container("pod", "a", SMALL, least_memory_bytes=LARGE.memory_bytes)
    nodes = [node("a", memory_free_bytes=0)]
    weights = Weights(in_place=False)
    found = plan(PlanRequest(SIZES, nodes, [held], 4, weights))
    assert violations(found, PlanRequest(SIZES, nodes, [held], 4, weights)) == []
    beside = planning.plan(PlanRequest(SIZES, [node("a", memory_free_bytes=768 * MIB)], [held], 4, weights))
    assert (beside.kept, [c.size.name for c in beside.created]) == ((held,), ["middle"])


@settings(max_examples=300)
@given(problems(most_containers=8), st.data())
def test_it_is_a_plan(problem: RandomProblem, data: st.DataObject) -> None:
    """Some use part of what they have, some hold more than their size."""
    amounts = st.sampled_from([0, 100, 400, 1000, 4000, 6000])
    containers = [replace(c, least_memory_bytes=data.draw(amounts) * MIB) for c in problem.containers]
    request = replace(problem.request, containers=containers)
    found = plan(request)
    assert violations(found, request) == []
