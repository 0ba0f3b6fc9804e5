"""A gated pod is nominated, then released: only this pod, and only from this gate."""

from __future__ import annotations

from typing import Any

import pytest

from surgekit.kube.client import ApiError
from surgekit.kube.nomination import PodRef, nominate_and_release
from tests.fake_api_server import FakeApiServer

PODS = "/api/v1/namespaces/shop/pods"
OURS, OTHERS = "surgekit.dev/gate", "example.dev/gate"


class Ordered(FakeApiServer):
    """Remembers the order of writes."""

    def __init__(self) -> None:
        super().__init__()
        self.patched: list[str] = []

    def patch(self, path: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        self.patched.append(path)
        return super().patch(path, *args, **kwargs)


def gated(kube: FakeApiServer, *gates: str) -> PodRef:
    spec = {"containers": [{"name": "app", "image": "app"}], "schedulingGates": [{"name": g} for g in gates]}
    made = kube.create(PODS, {"metadata": {"name": "web"}, "spec": spec})
    return PodRef("shop", "web", made["metadata"]["uid"])


def test_it_is_nominated_before_the_scheduler_can_take_it() -> None:
    kube = Ordered()
    pod = nominate_and_release(kube, gated(kube, OURS), OURS, "node-1")
    assert kube.patched == [f"{PODS}/web/status", f"{PODS}/web"]
    assert not pod["spec"].get("schedulingGates")
    assert pod["status"]["nominatedNodeName"] == "node-1"
    assert kube.get(f"{PODS}/web") == pod


def test_gates_of_others_stay() -> None:
    kube = FakeApiServer()
    pod = nominate_and_release(kube, gated(kube, OTHERS, OURS), OURS, "node-1")
    assert pod["spec"]["schedulingGates"] == [{"name": OTHERS}]


def test_without_a_node_only_the_gate_comes_off() -> None:
    kube = FakeApiServer()
    pod = nominate_and_release(kube, gated(kube, OURS), OURS)
    assert not pod["spec"].get("schedulingGates")
    assert "nominatedNodeName" not in pod["status"]


def test_it_can_be_repeated() -> None:
    kube = FakeApiServer()
    ref = gated(kube, OURS)
    assert nominate_and_release(kube, ref, OURS, "node-1") == nominate_and_release(kube, ref, OURS, "node-1")


@pytest.mark.parametrize("node", ["", "node-1"])
def test_a_newer_pod_of_the_same_name_is_left_alone(node: str) -> None:
    kube = FakeApiServer()
    ref = gated(kube, OURS)
    kube.delete(f"{PODS}/web", {"gracePeriodSeconds": 0})
    gated(kube, OURS)
    before = kube.get(f"{PODS}/web")
    with pytest.raises(ApiError) as raised:
        nominate_and_release(kube, ref, OURS, node)
    assert raised.value.code == 422
    assert raised.value.overtaken
    assert kube.get(f"{PODS}/web") == before
