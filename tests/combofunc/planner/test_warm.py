"""Keeping warm: by hand, and what must hold whatever the problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from combofunc.planner import planning
from combofunc.planner.model import Container, Plan, PlanRequest, Size, Weights
from combofunc.planner.verifier import violations
from combofunc.planner.warm import plan_keeping_warm
from experiments.planner.random_problems import RandomProblem
from tests.combofunc.planner.builders import (
    LARGE,
    MIB,
    MIDDLE,
    SIZES,
    SMALL,
    node,
    problems,
    running,
)

KEEP_S = 60.0
NEW: Mapping[str, float] = {}


def keeping_warm(
    problem: RandomProblem,
    idle_since: dict[str, float] | None = None,
    keep_s: float = KEEP_S,
    now_s: float = 0.0,
) -> tuple[Plan, dict[str, float]]:
    return plan_keeping_warm(planning.plan, problem.request, idle_since or {}, keep_s, now_s)


def asked(containers: tuple[Container, ...], target: int, in_place: bool = True) -> RandomProblem:
    weights = Weights(in_place=in_place)
    return RandomProblem("by hand", SIZES, (node("a"), node("b")), containers, target, weights)


def test_what_is_not_needed_shrinks_and_counts() -> None:
    plan, idle = keeping_warm(asked(running(LARGE, LARGE, LARGE), 10), now_s=7.0)
    assert not plan.removed
    assert not plan.created
    assert plan.replicas == {"large": 1, "small": 2}, "8 + 1 + 1: the warm ones are part of the ten"
    assert idle == {"pod-a-1": 7.0}, "the other was shrunk for what is needed beside the eight"


def test_when_its_time_is_over_it_goes() -> None:
    containers = running(LARGE, SMALL)
    plan, idle = keeping_warm(asked(containers, 8), {"pod-a-1": 0.0}, now_s=59.0)
    assert (plan.removed, plan.resized, idle) == ((), (), {"pod-a-1": 0.0})
    plan, idle = keeping_warm(asked(containers, 8), idle, now_s=60.0)
    assert [c.pod for c in plan.removed] == ["pod-a-1"]
    plan, _ = keeping_warm(asked(containers, 8), idle, now_s=61.0)
    assert [c.pod for c in plan.removed] == ["pod-a-1"], "also if it is still there, draining"


def test_the_others_are_planned_with_the_room_that_a_warm_container_gives_up() -> None:
    requests: list[PlanRequest] = []

    def planner(request: PlanRequest) -> Plan:
        requests.append(request)
        return planning.plan(request)

    containers = running(LARGE, LARGE)
    plan_keeping_warm(planner, asked(containers, 8).request, {}, KEEP_S, 0.0)
    first, others = requests
    assert (len(others.containers), others.target) == (1, 7), "the warm one gives 1"
    before, after = first.nodes[0], others.nodes[0]
    assert after.cpu_free_millicores - before.cpu_free_millicores == 1000 - 250
    assert after.memory_free_bytes - before.memory_free_bytes == (1024 - 256) * MIB
    assert (after.pods_free, others.nodes[1]) == (before.pods_free, first.nodes[1])


def test_a_container_that_is_needed_again_is_not_idle() -> None:
    plan, idle = keeping_warm(asked(running(LARGE, SMALL), 16), {"pod-a-1": 0.0}, now_s=59.0)
    assert ([r.to for r in plan.resized], idle) == ([LARGE], {})


def test_without_in_place_it_stays_as_it_is() -> None:
    containers = running(LARGE, LARGE)
    plan, _ = keeping_warm(asked(containers, 8, in_place=False))
    assert plan.kept == containers
    idle = dict.fromkeys(("pod-a-0", "pod-a-1"), 0.0)
    plan, _ = keeping_warm(asked(containers, 8, in_place=False), idle, now_s=60.0)
    assert len(plan.removed) == 1


def test_who_wants_nothing_keeps_nothing() -> None:
    plan, idle = keeping_warm(asked(running(LARGE, SMALL), 0))
    assert (len(plan.removed), idle) == (2, {})


def test_who_is_on_its_way_is_not_waited_for() -> None:
    plan, _ = keeping_warm(asked(running(LARGE) + running(LARGE, on="b", resizable=False), 8))
    assert [c.node for c in plan.removed] == ["b"]


def test_it_goes_where_its_room_is_needed() -> None:
    """A container of a size not offered any more, alone on the only node, makes way for a new one."""
    old = Container("old", "a", MIDDLE, resizable=True)
    problem = RandomProblem(
        "by hand",
        (LARGE,),
        (node(cpu_free_millicores=600, memory_free_bytes=600 * MIB),),
        (old,),
        8,
        Weights(),
    )
    plan, idle = keeping_warm(problem)
    assert plan.shortage == 0
    assert idle == {}


def ready_s(plan: Plan, problem: RandomProblem) -> float:
    """When the last that is created is there."""
    by_name, turn = {node.name: node for node in problem.nodes}, Counter[str]()
    found = [0.0]
    for creation in plan.created:
        at = by_name[creation.node]
        turn[at.name] += 1
        slowdown = problem.contention.creation.slowdown(at.creating + turn[at.name])
        found.append(at.tau_create_s * slowdown + at.image_pull_s)
    return max(found)


@settings(max_examples=300)
@given(problems(), st.sets(st.integers(0, 5)), st.sampled_from([0.0, 30.0, 60.0]))
def test_it_is_a_plan_that_creates_no_more_and_no_later(
    problem: RandomProblem, idle: set[int], now_s: float
) -> None:
    alone = planning.plan(problem.request)
    before = {f"pod-{i}": 0.0 for i in idle}
    plan, after = keeping_warm(problem, before, now_s=now_s)
    assert violations(plan, problem.request) == []
    assert plan.shortage <= alone.shortage
    assert len(plan.created) <= len(alone.created)
    assert ready_s(plan, problem) <= ready_s(alone, problem)
    removed = {c.pod for c in plan.removed}
    in_place_of = [pod for pod in after if pod in removed and pod not in before]
    used = {c.pod for c in problem.containers} & before.keys() - removed
    assert len(in_place_of) <= (len(used) if now_s >= KEEP_S else 0), "each for one whose time is over"
    assert all(
        since_s == (0.0 if pod in removed else before.get(pod, now_s)) for pod, since_s in after.items()
    )
    assert all(since_s + KEEP_S > now_s for pod, since_s in after.items() if pod not in removed)
    assert keeping_warm(problem, keep_s=0.0)[0] == alone


def carried_out(problem: RandomProblem, plan: Plan, pods: str) -> RandomProblem:
    """The cluster once the plan is done; `pods`: what names of new ones begin with."""
    freed: Counter[tuple[str, str]] = Counter()

    def moved(at: str, size: Size, sign: int, pods: int = 1) -> None:
        freed[at, "cpu"] += sign * size.cpu_millicores
        freed[at, "memory"] += sign * size.memory_bytes
        freed[at, "pods"] += sign * pods

    for container in plan.removed:
        moved(container.node, container.size, 1)
    for resize in plan.resized:
        moved(resize.container.node, resize.container.size, 1, pods=0)
        moved(resize.container.node, resize.to, -1, pods=0)
    for creation in plan.created:
        moved(creation.node, creation.size, -1)
    nodes = tuple(
        replace(
            node,
            cpu_free_millicores=node.cpu_free_millicores + freed[node.name, "cpu"],
            memory_free_bytes=node.memory_free_bytes + freed[node.name, "memory"],
            pods_free=node.pods_free + freed[node.name, "pods"],
        )
        for node in problem.nodes
    )
    there = (
        *plan.kept,
        *(replace(r.container, size=r.to) for r in plan.resized),
        *(Container(f"{pods}-{i}", c.node, c.size) for i, c in enumerate(plan.created)),
    )
    return replace(problem, nodes=nodes, containers=there)


def test_on_an_overcommitted_node_nothing_is_made_smaller() -> None:
    old = Container("old", "a", Size("old", 300, 512 * MIB, 2))
    over = node(memory_free_bytes=-512 * MIB)
    problem = RandomProblem("by hand", SIZES, (over, node("b")), (old, *running(LARGE, on="b")), 8, Weights())
    plan, idle = keeping_warm(problem)
    assert ([c.pod for c in plan.removed], plan.resized, idle) == (["old"], (), {})


@settings(max_examples=300)
@given(problems())
def test_nothing_is_kept_warm_for_ever(problem: RandomProblem) -> None:
    """Plan after plan, each when somebody's time is over: in a few it is over for all."""
    idle, now_s = dict[str, float](), 0.0
    for plans in range(7):
        plan, idle = keeping_warm(problem, idle, now_s=now_s)
        problem = carried_out(problem, plan, f"new-{plans}")
        warm = [idle[c.pod] for c in problem.containers if c.pod in idle]
        if not warm:
            return
        now_s = min(warm) + KEEP_S
    raise AssertionError(f"still warm: {idle}")


def test_who_is_being_made_smaller_is_kept_as_it_becomes() -> None:
    small = running(SMALL, SMALL, on="b", resizable=False)
    plan, idle = keeping_warm(asked(running(LARGE) + small, 8), {"pod-b-0": 0.0}, now_s=1.0)
    assert [c.pod for c in plan.removed] == ["pod-b-1"], "which was not idle before: it is on its way"
    assert idle == {"pod-b-0": 0.0}
