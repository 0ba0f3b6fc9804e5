"""The plan of addresses: nothing overlaps, and who runs out of them is told."""

from __future__ import annotations

from itertools import combinations

import pytest

from kwok.errors import LabError
from kwok.network import addresses
from kwok.nodes import NodeShape, node_body


def test_ranges_do_not_overlap() -> None:
    ranges = [addresses.EMULATED_PODS, addresses.REAL_PODS, addresses.SERVICES, addresses.LINK]
    assert not [pair for pair in combinations(ranges, 2) if pair[0].overlaps(pair[1])]


def test_every_node_has_pods_of_its_own() -> None:
    first, last = addresses.emulated_pods(0), addresses.emulated_pods(16127)
    assert (str(first), str(last)) == ("10.0.0.0/24", "10.62.255.0/24")
    assert addresses.SHARED_PODS.subnet_of(addresses.EMULATED_PODS)
    assert not addresses.SHARED_PODS.overlaps(last)
    assert str(addresses.real_pods(3)) == "10.64.3.0/24"
    assert addresses.real_node(addresses.MOST_REAL_NODES - 1) in addresses.LINK


def test_running_out_is_told() -> None:
    with pytest.raises(LabError, match="16128 emulated nodes"):
        addresses.emulated_pods(16128)
    with pytest.raises(LabError, match="48 real nodes"):
        addresses.real_node(addresses.MOST_REAL_NODES)


@pytest.mark.parametrize(("port", "address"), [(None, "172.20.1.2"), (10250, "127.1.1.2")])
def test_emulated_nodes_have_their_places(port: int | None, address: str) -> None:
    node = node_body("n", 258, NodeShape(capacity={}, kubelet_port=port))
    assert node["spec"]["podCIDR"] == "10.1.2.0/24"
    assert node["status"]["addresses"][0]["address"] == address
