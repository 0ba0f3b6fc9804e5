"""The model of kube-scheduler: by hand, against a slow one in plain Python, against kube-scheduler itself."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_autoscaler_hook.expander.stock_scheduler import PodKinds, ScoredNodes, place
from kwok.lab import SCHEDULER, Lab
from kwok.pods import pod

MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True)
class Node:
    name: str
    cpu: int
    memory: int
    cpu_free: int
    memory_free: int
    pods_free: int = 110

    def with_pod(self, cpu: int, memory: int) -> Node:
        return replace(
            self,
            cpu_free=self.cpu_free - cpu,
            memory_free=self.memory_free - memory,
            pods_free=self.pods_free - 1,
        )


def node(name: str, cpu_free: int, memory_free_gib: float, pods_free: int = 110) -> Node:
    return Node(name, 8000, 16 * GIB, cpu_free, int(memory_free_gib * GIB), pods_free)


def scored(
    nodes: Sequence[Node], sizes: Sequence[tuple[int, int]], siblings: Sequence[Mapping[str, int]]
) -> ScoredNodes:
    return ScoredNodes(
        PodKinds.of([[cpu, memory, 1] for cpu, memory in sizes]),
        np.array([[n.cpu, n.memory] for n in nodes]),
        np.array([[n.cpu_free, n.memory_free, n.pods_free] for n in nodes]),
        np.array([[there.get(n.name, 0) for n in nodes] for there in siblings]),
    )


def best_nodes(nodes: Sequence[Node], size: tuple[int, int], siblings: Mapping[str, int]) -> list[str]:
    return [nodes[at].name for at in scored(nodes, [size], [siblings]).best(0)]


SMALL = (1000, GIB)


@pytest.mark.parametrize(
    ("nodes", "siblings", "best"),
    [
        ([node("a", 8000, 16), node("b", 4000, 8)], {}, ["a"]),  # the emptier one
        ([node("a", 4000, 8), node("b", 4000, 8)], {}, ["a", "b"]),
        ([node("a", 4000, 8), node("b", 4000, 8)], {"a": 1}, ["b"]),  # spread
        ([node("a", 8000, 16), node("b", 6000, 12)], {"a": 2}, ["b"]),  # spread counts more than room
        ([node("a", 999, 16), node("b", 4000, 8)], {"b": 9}, ["b"]),  # what does not fit is no choice
        ([node("a", 999, 16), node("b", 8000, 0.5)], {}, []),
        ([node("a", 8000, 16, pods_free=0)], {}, []),
        ([node("a", 1000, 1)], {}, ["a"]),  # what fits exactly fits
    ],
)
def test_best_nodes(nodes: list[Node], siblings: dict[str, int], best: list[str]) -> None:
    assert best_nodes(nodes, SMALL, siblings) == best


def test_a_full_node_is_left_out_and_what_fits_nowhere_is_not_placed() -> None:
    nodes = scored([node("a", 3000, 16), node("b", 2000, 16)], [SMALL], [{}])
    assert Counter(place(nodes, [0] * 9, random.Random(1))) == {(0, 0): 3, (0, 1): 2}


def slow_best_nodes(nodes: Sequence[Node], size: tuple[int, int], siblings: Mapping[str, int]) -> list[str]:
    """The same scores, one node at a time, written apart from the model."""
    possible = [n for n in nodes if n.cpu_free >= size[0] and n.memory_free >= size[1] and n.pods_free >= 1]
    if not possible:
        return []
    weight = math.log(len(possible) + 2)
    skews = [round(siblings.get(n.name, 0) * weight + 2) for n in possible]
    scores = [
        _least_allocated(n, *size)
        + 50
        + int((50 + _balance(n, *size) - _balance(n, 0, 0)) / 2)
        + 2 * (100 * (max(skews) + min(skews) - skew) // max(skews))
        for n, skew in zip(possible, skews, strict=True)
    ]
    return [n.name for n, score in zip(possible, scores, strict=True) if score == max(scores)]


def _least_allocated(n: Node, cpu: int, memory: int) -> int:
    return ((n.cpu_free - cpu) * 100 // n.cpu + (n.memory_free - memory) * 100 // n.memory) // 2


def _balance(n: Node, cpu: int, memory: int) -> int:
    shares = [(n.cpu - n.cpu_free + cpu) / n.cpu, (n.memory - n.memory_free + memory) / n.memory]
    return int((1 - abs(min(shares[0], 1.0) - min(shares[1], 1.0)) / 2) * 100)


some_nodes = st.lists(
    st.builds(
        lambda cpu, mib, cpu_used, mib_used, pods: Node(
            "", cpu, mib * MIB, cpu - cpu_used, (mib - mib_used) * MIB, pods
        ),
        st.integers(1000, 8000),
        st.integers(1024, 16384),
        st.integers(0, 2000),  # may be more than there is
        st.integers(0, 4096),
        st.integers(0, 10),
    ),
    min_size=1,
    max_size=6,
)


@given(
    some_nodes,
    st.lists(st.tuples(st.integers(50, 2000), st.integers(64, 4096)), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.randoms(use_true_random=False),
)
def test_it_agrees_with_the_slow_model(
    drawn: list[Node], pods: list[tuple[int, int]], queue: list[int], draw: random.Random
) -> None:
    views = [replace(n, name=str(i)) for i, n in enumerate(drawn)]
    sizes = [(cpu, mib * MIB) for cpu, mib in pods]
    nodes = scored(views, sizes, [{}] * len(sizes))
    for number in queue:
        kind = number % len(sizes)
        siblings = {str(i): int(nodes.siblings[kind, i]) for i in range(len(views))}
        best = [int(at) for at in nodes.best(kind)]
        assert [str(at) for at in best] == slow_best_nodes(views, sizes[kind], siblings)
        if best:
            at = draw.choice(best)
            nodes.put(kind, at)
            views[at] = views[at].with_pod(*sizes[kind])


@pytest.mark.lab
def test_the_real_scheduler_takes_a_node_that_is_among_the_best(lab: Lab, namespace: str) -> None:
    """Pods of a Deployment, one after the other, on nodes that others have part of."""
    drawn = random.Random(7)
    free = {f"node-{i}": node(f"node-{i}", 8000, 16) for i in range(4)}
    for name, view in free.items():
        cpu, memory_mib = drawn.randrange(500, 4000, 100), drawn.randrange(512, 8192, 64)
        body = pod(f"resident-{name}", f"{cpu}m", f"{memory_mib}Mi", nodeName=name)
        lab.kube.create(f"/api/v1/namespaces/{namespace}/pods", body)
        free[name] = view.with_pod(cpu, memory_mib * MIB)
    size = (600, 768 * MIB)
    template = pod("app-1", "600m", "768Mi")
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "app"}},
        "template": {"metadata": {"labels": {"app": "app"}}, "spec": template["spec"]},
    }
    lab.kube.create(deployments, {"metadata": {"name": "app"}, "spec": spec})
    lab.start_scheduler()
    try:
        seen: dict[str, str] = {}
        for replicas in range(1, 13):
            siblings = Counter(seen.values())
            expected = best_nodes(list(free.values()), size, siblings)
            lab.kube.patch(f"{deployments}/app", {"spec": {"replicas": replicas}})

            def bound() -> dict[str, str]:
                pods, _ = lab.kube.list_all(f"/api/v1/namespaces/{namespace}/pods", labelSelector="app=app")
                return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods if "nodeName" in p["spec"]}

            lab.wait_for(lambda count=replicas: len(bound()) == count, f"{replicas} pods bound")  # type: ignore[misc]
            ((_, chosen),) = bound().items() - seen.items()
            assert chosen in expected, (replicas, siblings)
            seen = bound()
            free[chosen] = free[chosen].with_pod(*size)
    finally:
        lab.stop(SCHEDULER)
