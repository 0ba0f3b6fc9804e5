"""Replicas said by hand, placed by the planner."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from combofunc.planner import planning
from combofunc.planner.model import Container, Node, PlanRequest, Size, Weights
from combofunc.pods.fixed_replicas import plan_replicas

GIB = 2**30
SIZES = (Size("small", 500, GIB // 2, 1), Size("medium", 1000, GIB, 3), Size("large", 2000, 2 * GIB, 8))


def node(name: str, cpu_free: int = 8000) -> Node:
    return Node(name, 8000, 16 * GIB, cpu_free, 16 * GIB, 100, 0, 1.0, 0.1)


def test_what_is_removed_makes_room_for_what_is_created() -> None:
    full = replace(node("n0", cpu_free=0), pods_free=0)
    there = [Container(f"p{i}", "n0", SIZES[1]) for i in range(2)]
    request = PlanRequest(SIZES, [full], there, 0, Weights(in_place=False))
    plan = plan_replicas({"large": 1}, request, planning.plan)
    assert (len(plan.removed), [c.size.name for c in plan.created], plan.shortage) == (2, ["large"], 0)


COUNTS = st.fixed_dictionaries({size.name: st.integers(0, 5) for size in SIZES})
THERE = st.lists(st.tuples(st.sampled_from(SIZES), st.integers(0, 2), st.booleans()), max_size=8)


@settings(max_examples=80)
@given(COUNTS, THERE, st.booleans(), st.sampled_from([0, 1000, 8000]))
def test_the_counts_are_as_said_where_there_is_room(
    counts: dict[str, int], there: list[tuple[Size, int, bool]], in_place: bool, cpu_free: int
) -> None:
    nodes = [node(f"n{i}", cpu_free) for i in range(3)]
    containers = [Container(f"p{i}", f"n{at}", size, free) for i, (size, at, free) in enumerate(there)]
    plan = plan_replicas(
        counts, PlanRequest(SIZES, nodes, containers, 0, Weights(in_place=in_place)), planning.plan
    )
    fates = [
        *(c.pod for c in plan.kept),
        *(r.container.pod for r in plan.resized),
        *(c.pod for c in plan.removed),
    ]
    assert sorted(fates) == sorted(c.pod for c in containers)
    assert all(plan.replicas[name] <= count for name, count in counts.items())
    if cpu_free == 8000:
        assert plan.replicas == Counter({name: count for name, count in counts.items() if count})
    assert in_place or not plan.resized
    assert all(r.container.resizable for r in plan.resized)
    for at in nodes:
        used = sum(c.size.cpu_millicores for c in plan.created if c.node == at.name)
        used += sum(
            r.to.cpu_millicores - r.container.size.cpu_millicores
            for r in plan.resized
            if r.container.node == at.name
        )
        used -= sum(c.size.cpu_millicores for c in plan.removed if c.node == at.name)
        assert used <= at.cpu_free_millicores
    assert plan.shortage == sum(
        (count - plan.replicas[size.name]) * size.concurrency
        for size in SIZES
        for count in (counts[size.name],)
    )


def test_it_places_where_it_is_cheapest() -> None:
    fast, slow = node("fast"), Node("slow", 8000, 16 * GIB, 8000, 16 * GIB, 100, 0, 9.0, 0.1)
    plan = plan_replicas({"large": 2}, PlanRequest(SIZES, [slow, fast], [], 0), planning.plan)
    assert [creation.node for creation in plan.created] == ["fast", "fast"]
