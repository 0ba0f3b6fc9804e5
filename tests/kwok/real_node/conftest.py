"""What tests of real nodes share: one lab with two of them, beside two emulated ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwok import real_node
from kwok.binaries import Binaries
from kwok.lab import Lab
from kwok.scenario import Scenario


@pytest.fixture(scope="session")
def lab(real_node_binaries: Binaries) -> Iterator[Lab]:
    """Nodes `node-0`, `node-1` (emulated, 0.2 s a pod), `real-0` and `real-1`; the stock scheduler."""
    with Lab.temporary("real", own_network=True) as lab:
        lab.start_node_model(Scenario.equal(lab.add_nodes(2), tau_create_s=0.2))
        lab.start_scheduler()
        assert real_node.start(lab, 2) == ["real-0", "real-1"]
        yield lab
