"""What the bench does to a real node, once."""

from __future__ import annotations

import pytest

from experiments.node_model.real_pods import RealPods
from kwok import real_node
from kwok.binaries import Binaries
from kwok.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.real_node]


def test_pods_are_created_resized_and_deleted(real_node_binaries: Binaries) -> None:
    with Lab.temporary("node-model", own_network=True) as lab:
        (node,) = real_node.start(lab, 1, ())
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
        finally:
            pods.close()
