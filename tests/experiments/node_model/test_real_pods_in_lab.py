"""What the bench does to a real node, once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from experiments.node_model.real_pods import RealPods
from kwok import real_node
from kwok.binaries import REGISTRY, Binaries
from kwok.lab import Lab
from kwok.real_node.machine import Machine
from kwok.real_node.registry import Registry

pytestmark = [pytest.mark.lab, pytest.mark.real_node]


def test_pods_are_created_resized_and_deleted_and_images_pulled(
    real_node_binaries: Binaries, built: Callable[..., Binaries]
) -> None:
    built(REGISTRY)
    with Lab.temporary("node-model", own_network=True) as lab:
        (node,) = real_node.start(lab, 1, ())
        registry = Registry.start(Machine(lab, 0))
        pods = RealPods(lab, node, 2)
        try:
            created = pods.create_and_delete(3, 2)
            assert {clock: len(times) for clock, times in created.items()} == dict.fromkeys(created, 3)
            assert all(times == sorted(times) and times[0] > 0 for times in created.values())
            # A container has started before the API shows it.
            assert all(a < b for a, b in zip(created["started_s"], created["seen_s"], strict=True))
            for _ in ("larger", "as before"):
                assert len(pods.resize(2)["seen_s"]) == 2
            left, _ = lab.kube.list_all("/api/v1/pods")
            sizes = [pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] for pod in left]
            assert sizes == ["50m", "50m"]
            image = registry.push("padded", 2**20)
            for _ in ("first", "again, once the node has forgotten it"):
                pulled = pods.pull([image, image])
                assert pulled["pulled_s"][-1] > 0, "the kubelet says how long it took"
                assert len(pulled["seen_s"]) == 2
                assert pulled["seen_s"][0] > pulled["pulled_s"][0]
                registry.forget_pulled()
        finally:
            pods.close()
