"""How pods spread over new nodes: by hand, and against the real kube-scheduler."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cluster_autoscaler_hook.expander.caller_model import Overhead, estimate
from cluster_autoscaler_hook.expander.model import Demand, Kind, Template
from cluster_autoscaler_hook.expander.new_nodes import new_nodes, shuffled_order, spread
from cluster_autoscaler_hook.expander.stock_scheduler import ScoredNodes
from cluster_autoscaler_hook.solver.deadline import Deadline
from kwok.lab import SCHEDULER, Lab
from kwok.pods import pod
from tests.cluster_autoscaler_hook.expander.builders import GIB, kind, template

MIB = 1 << 20


def place(nodes: ScoredNodes, order: Sequence[int]) -> dict[int, int]:
    return spread(nodes, order, random.Random(1))


def test_small_pods_take_the_room_that_a_large_one_needs() -> None:
    """Packed full, two nodes take six small pods and a large one; spread, three small ones are on each."""
    node, kinds = template("g", 4, 16), [kind(["g"], 0.7, 1), kind(["g"], 3, 1)]
    assert estimate(node, kinds, {0: 6, 1: 1}).nodes == 2
    assert place(new_nodes(node, Overhead(), kinds, 2), [0, 0, 0, 0, 0, 0, 1]) == {0: 6}
    assert place(new_nodes(node, Overhead(), kinds, 2), [1, 0, 0, 0, 0, 0, 0]) == {0: 6, 1: 1}


def test_what_limits_a_node() -> None:
    small = kind(["g"], 0.1, 0.1)
    assert place(new_nodes(template("g", pods=3), Overhead(), [small], 2), [0] * 9) == {0: 6}
    assert place(new_nodes(template("g", pods=3), Overhead(pods=1), [small], 2), [0] * 9) == {0: 4}
    assert place(new_nodes(template("g", 4), Overhead(cpu_millis=3850), [small], 2), [0] * 9) == {0: 2}
    assert place(new_nodes(template("g"), Overhead(), [kind(["g"], alone=True)], 3), [0] * 9) == {0: 3}
    assert place(new_nodes(template("g"), Overhead(), [kind(["other"])], 3), [0] * 9) == {}
    gpu = Kind(Demand(100, GIB, (("nvidia.com/gpu", 1),)), frozenset({"g"}))
    with_gpus = replace(template("g"), others={"nvidia.com/gpu": 2})
    assert place(new_nodes(with_gpus, Overhead(), [gpu, small], 2), [0] * 9 + [1]) == {0: 4, 1: 1}


def test_a_deadline_cuts_it_short() -> None:
    nodes = new_nodes(template("g"), Overhead(), [kind(["g"])], 2)
    assert spread(nodes, [0, 0], random.Random(1), Deadline.after(0)) == {}


# Deployments of a mix: millicores, MiB, replicas.
MIX = ((350, 512, 18), (700, 1536, 10), (1300, 2048, 6), (3100, 5120, 3))


@pytest.mark.lab
def test_the_real_scheduler_spreads_as_the_model_does(lab: Lab, namespace: str) -> None:
    """Pods of several Deployments come in a mixed order to empty nodes that would take all of them if packed:
    each goes where the model says, and what kube-scheduler leaves pending fits nowhere in the model."""
    kinds = [Kind(Demand(cpu, mib * MIB), frozenset({"g"})) for cpu, mib, _ in MIX]
    counts = {i: count for i, (_, _, count) in enumerate(MIX)}
    node = Template("g", "g", 4000, 8 * GIB, 110)
    packed = estimate(node, kinds, counts)
    assert packed.placed == counts
    order = shuffled_order(counts, random.Random(3))
    nodes = new_nodes(node, Overhead(), kinds, packed.nodes)
    names = lab.add_nodes(packed.nodes, cpu="4", memory="8Gi", prefix=namespace, labels={"mix": namespace})
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    pending = Counter[int]()
    try:
        lab.start_scheduler()
        for index, (cpu, mib, _) in enumerate(MIX):
            lab.kube.create(deployments, deployment(index, cpu, mib, namespace))
        placed = Counter[int]()
        for index in order:
            expected = {names[i] for i in nodes.best(index)}
            at = one_more(lab, namespace, index, placed[index] + pending[index] + 1)
            assert (at in expected) if expected else (at is None), (index, placed, pending)
            if at is None:
                pending[index] += 1
            else:
                nodes.put(index, names.index(at))
                placed[index] += 1
    finally:
        lab.stop(SCHEDULER)
        for index in range(len(MIX)):
            lab.kube.delete(f"{deployments}/kind-{index}")
        for name in names:
            lab.kube.delete(f"/api/v1/nodes/{name}")
    # Spreading left some pending that would have fitted, and the model left to itself leaves about as many.
    assert pending
    alone = [
        sum(spread(new_nodes(node, Overhead(), kinds, packed.nodes), order, random.Random(seed)).values())
        for seed in range(20)
    ]
    assert min(alone) <= placed.total() <= max(alone)


def deployment(index: int, cpu: int, mib: int, namespace: str) -> dict[str, Any]:
    name = f"kind-{index}"
    template = pod(f"{name}-0", f"{cpu}m", f"{mib}Mi", nodeSelector={"mix": namespace})
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]},
    }
    return {"metadata": {"name": name}, "spec": spec}


def one_more(lab: Lab, namespace: str, index: int, replicas: int) -> str | None:
    """Scale the Deployment up by one; the node kube-scheduler gives the new pod, None where it has none."""
    name = f"kind-{index}"
    path = f"/api/v1/namespaces/{namespace}/pods"
    known = {p["metadata"]["name"] for p in lab.kube.list_all(path, labelSelector=f"app={name}")[0]}
    lab.kube.patch(
        f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}", {"spec": {"replicas": replicas}}
    )
    found: list[str | None] = []

    def judged() -> bool:
        for one in lab.kube.list_all(path, labelSelector=f"app={name}")[0]:
            if one["metadata"]["name"] in known:
                continue
            if one["spec"].get("nodeName"):
                found.append(one["spec"]["nodeName"])
            elif any(
                c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable"
                for c in one.get("status", {}).get("conditions", [])
            ):
                found.append(None)
        return bool(found)

    lab.wait_for(judged, f"pod {replicas} of {name} is scheduled or refused")
    return found[0]
