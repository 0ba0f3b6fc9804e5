"""One fake API server for each unit test; one lab with the real Karpenter for all lab tests of a module."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kwok import karpenter, parts
from kwok.binaries import CORE, KARPENTER, Binaries
from kwok.lab import Lab
from kwok.pods import delete_pods, wait_for_account
from surgekit.kube.client import ApiError
from tests.cluster_autoscaler_hook.karpenter.lab_with_hook import CLAIMS, TABLE, claims, start_karpenter
from tests.cluster_autoscaler_hook.karpenter.leader import NODE_CLAIM
from tests.fake_api_server.server import FakeApiServer

QUICK = {"empty_after_s": 1.0, "launch_timeout_s": 2.0}


@pytest.fixture
def kube() -> FakeApiServer:
    return FakeApiServer(kinds=(NODE_CLAIM,))


@pytest.fixture(scope="module")
def cluster(built: Callable[..., Binaries]) -> Iterator[Lab]:
    built(*CORE, KARPENTER)
    with Lab.temporary("karpenter", instant_pods=True) as lab:
        parts.install(lab)
        karpenter.install(lab)
        karpenter.install_hook(lab)
        lab.start_scheduler()
        start_karpenter(lab)
        karpenter.add_node_pool(lab)
        karpenter.add_node_pool(lab, "spot", capacity_type="spot")
        yield lab


@pytest.fixture
def hook(cluster: Lab) -> Iterator[Callable[..., None]]:
    """Starts the hook with settings; stopped after the test, when all nodes are gone."""

    def start(**settings: Any) -> None:
        karpenter.start_hook(cluster, TABLE, QUICK | settings)
        if settings.get("mode", "enforce") == "enforce":
            karpenter.wait_until_gating(cluster)

    yield start
    cluster.stop(karpenter.HOOK)
    for claim in claims(cluster):
        try:
            cluster.kube.delete(f"{CLAIMS}/{claim['metadata']['name']}")
        except ApiError as error:
            if error.code != 404:
                raise
    cluster.wait_for(lambda: not claims(cluster), "no claims", 120)


@pytest.fixture
def namespace(cluster: Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    """Opted in; empty again before the nodes are taken away."""
    words = re.sub("[^a-z0-9]+", "-", request.node.name)
    name = f"{words[:40]}-{zlib.crc32(words.encode()):x}"
    labels = {"surgekit.dev/nodes": "enforce"}
    cluster.kube.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    wait_for_account(cluster.kube, name)
    yield name
    delete_pods(cluster.kube, name)
