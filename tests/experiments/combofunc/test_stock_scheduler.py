"""The stock scheduler's choice, as modelled and as it is."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from experiments.combofunc.model import NodeView
from experiments.combofunc.stock_scheduler import best_nodes, fits, place
from experiments.combofunc.workload import FUNCTIONS, MIB, Size
from kwok.lab import SCHEDULER, Lab
from kwok.pods import pod

GIB = 1 << 30
EMPTY = NodeView("a", 8000, 16 * GIB, 8000, 16 * GIB, 110, 0, 1.0, 0.1)
SMALL = Size("c1", 1000, GIB, 1)


def node(name: str, cpu_free: int, memory_free_gib: float) -> NodeView:
    return replace(
        EMPTY, name=name, cpu_free_millicores=cpu_free, memory_free_bytes=int(memory_free_gib * GIB)
    )


@pytest.mark.parametrize(
    ("nodes", "siblings", "best"),
    [
        ([node("a", 8000, 16), node("b", 4000, 8)], {}, ["a"]),  # the emptier one
        ([node("a", 4000, 8), node("b", 4000, 8)], {}, ["a", "b"]),
        ([node("a", 4000, 8), node("b", 4000, 8)], {"a": 1}, ["b"]),  # spread
        ([node("a", 8000, 16), node("b", 6000, 12)], {"a": 2}, ["b"]),  # spread counts more than room
        ([node("a", 999, 16), node("b", 4000, 8)], {"b": 9}, ["b"]),  # what does not fit is no choice
        ([node("a", 999, 16), node("b", 8000, 0.5)], {}, []),
        ([node("a", 1000, 1)], {}, ["a"]),  # what fits exactly fits
    ],
)
def test_best_nodes(nodes: list[NodeView], siblings: dict[str, int], best: list[str]) -> None:
    assert best_nodes(nodes, SMALL, siblings) == best


def test_a_full_node_is_left_out_and_what_fits_nowhere_is_not_placed() -> None:
    nodes = [node("a", 3000, 16), node("b", 2000, 16)]
    assert Counter(place(nodes, SMALL, 9, {}, random.Random(1))) == {"a": 3, "b": 2}
    assert not fits(replace(EMPTY, pods_free=0), SMALL)


@pytest.mark.lab
def test_the_real_scheduler_takes_a_node_that_is_among_the_best(lab: Lab, namespace: str) -> None:
    """Pods of a Deployment, one after the other, on nodes that others have part of."""
    drawn = random.Random(7)
    free = {f"node-{i}": node(f"node-{i}", 8000, 16) for i in range(4)}
    for name, view in free.items():
        cpu, memory_mib = drawn.randrange(500, 4000, 100), drawn.randrange(512, 8192, 64)
        body = pod(f"resident-{name}", f"{cpu}m", f"{memory_mib}Mi", nodeName=name)
        lab.kube.create(f"/api/v1/namespaces/{namespace}/pods", body)
        free[name] = replace(
            view,
            cpu_free_millicores=8000 - cpu,
            memory_free_bytes=16 * GIB - memory_mib * MIB,
        )
    size = FUNCTIONS["ml"].sizes[1]
    template = pod("ml-1", f"{size.cpu_millicores}m", f"{size.memory_bytes // MIB}Mi")
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "ml"}},
        "template": {"metadata": {"labels": {"app": "ml"}}, "spec": template["spec"]},
    }
    lab.kube.create(deployments, {"metadata": {"name": "ml"}, "spec": spec})
    lab.start_scheduler()
    try:
        seen: dict[str, str] = {}
        for replicas in range(1, 13):
            siblings = Counter(seen.values())
            expected = best_nodes(list(free.values()), size, siblings)
            lab.kube.patch(f"{deployments}/ml", {"spec": {"replicas": replicas}})

            def bound() -> dict[str, str]:
                pods, _ = lab.kube.list_all(f"/api/v1/namespaces/{namespace}/pods", labelSelector="app=ml")
                return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods if "nodeName" in p["spec"]}

            lab.wait_for(lambda count=replicas: len(bound()) == count, f"{replicas} pods bound")  # type: ignore[misc]
            ((_, chosen),) = bound().items() - seen.items()
            assert chosen in expected, (replicas, siblings)
            seen = bound()
            free[chosen] = replace(
                free[chosen],
                cpu_free_millicores=free[chosen].cpu_free_millicores - size.cpu_millicores,
                memory_free_bytes=free[chosen].memory_free_bytes - size.memory_bytes,
            )
    finally:
        lab.stop(SCHEDULER)
