"""The whole chain: a real kubelet and containerd, the agent on the node, the controller, the API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwok import parts, real_node
from kwok.binaries import Binaries
from kwok.lab import Lab
from tests.limit_allocator.loaded_pods import follow_need_and_give_back

pytestmark = [pytest.mark.lab, pytest.mark.real_node]


@pytest.fixture(scope="module")
def lab(real_node_binaries: Binaries) -> Iterator[Lab]:
    with Lab.temporary("limits", own_network=True) as lab:
        lab.start_scheduler()
        real_node.start(lab, 1)
        parts.start_limits(lab, [0], {"status_every_s": 1.0})
        yield lab


def test_limits_follow_need_and_are_given_back(lab: Lab, namespace: str) -> None:
    follow_need_and_give_back(lab, namespace)
