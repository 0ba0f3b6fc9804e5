"""The view of the cluster that the watches keep."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cluster_autoscaler_hook.karpenter.labels import GATE, OPT_IN_LABEL
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.karpenter.sources import ClusterSource
from surgekit.kube.client import Kube
from tests.cluster_autoscaler_hook.karpenter.builders import pod
from tests.events_at_once import unreadable

Json = dict[str, Any]


class NoKube:
    host = "nowhere"


def source() -> ClusterSource:
    return ClusterSource(cast(Kube, NoKube()), unreadable(), Settings(), lambda: None)


def feed(to: ClusterSource, watch: str, *objects: Json) -> None:
    to._watches[watch]._consumer.replace(list(objects), 1.0)


def namespace(name: str, **labels: str) -> Json:
    return {"metadata": {"uid": f"ns-{name}", "name": name, "labels": labels}}


@pytest.mark.parametrize("opt_in", ["enforce", "shadow"])
def test_a_namespace_opts_in_for_its_pods(opt_in: str) -> None:
    watched = source()
    feed(watched, "pods", pod())
    feed(watched, "namespaces", namespace("default", **{OPT_IN_LABEL: opt_in}), namespace("shop"))
    assert [p.opt_in for p in watched.view().pending] == [opt_in]
    feed(watched, "namespaces", namespace("default"))
    assert [p.opt_in for p in watched.view().pending] == [""], "its label was removed"


def test_a_released_pod_takes_room_where_it_is_nominated_until_the_scheduler_gives_up() -> None:
    """Without the gate and not bound yet: its room must not be given away. Stuck: it needs none there."""
    node = {
        "metadata": {"uid": "n", "name": "n", "labels": {"surgekit.dev/pool": "fcma"}},
        "spec": {"providerID": "p"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }
    waits = pod(schedulingGates=[{"name": GATE}])
    released, stuck = pod(schedulingGates=[]), pod(schedulingGates=[])
    for one in (waits, released, stuck):
        one["status"] = {"phase": "Pending", "nominatedNodeName": "n"}
    stuck["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    for obj, used_pods in ((waits, 0), (released, 1), (stuck, 0)):
        watched = source()
        feed(watched, "nodes", node)
        feed(watched, "pods", obj)
        assert watched.view().nodes["n"].used_pods == used_pods, obj["status"]
