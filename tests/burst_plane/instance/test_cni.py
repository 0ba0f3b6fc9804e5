from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst_plane.instance.cni import NetworkError, address_of, bridge_name, own_bridge, read_chain, request


def test_a_list_and_a_single_plugin() -> None:
    many = {"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "bridge"}, {"type": "portmap"}]}
    chain = read_chain(json.dumps(many).encode())
    assert (chain.name, chain.version) == ("net", "1.0.0")
    assert [plugin["type"] for plugin in chain.plugins] == ["bridge", "portmap"]
    assert [p["type"] for p in read_chain(b'{"name": "net", "type": "ptp"}').plugins] == ["ptp"]


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b"{}", b'{"name": "n"}', b'{"name": "n", "plugins": []}', b'{"name": 7, "type": "x"}',
     b'{"name": "n", "type": "../../bin/sh"}', b'{"name": "n", "type": ".."}', b'{"name": "n", "type": ""}',
     b'{"name": "n", "plugins": [[]]}'],
)  # fmt: skip
def test_configurations_that_are_none(document: bytes) -> None:
    with pytest.raises(NetworkError):
        read_chain(document)


def test_what_a_plugin_is_asked() -> None:
    chain = own_bridge("surgekit-burst", "10.211.0.0/16", "/run/x")
    asked = json.loads(request(chain, chain.plugins[0], None))
    assert (asked["name"], asked["cniVersion"], asked["type"]) == ("surgekit-burst", "0.4.0", "bridge")
    assert "prevResult" not in asked
    assert json.loads(request(chain, chain.plugins[0], {"ips": []}))["prevResult"] == {"ips": []}


def test_the_first_ipv4_address() -> None:
    assert address_of({"ips": [{"address": "fd00::2/64"}, {"address": "10.0.0.2/24"}]}) == "10.0.0.2"
    wrongs: list[dict[str, Any]] = [
        {},
        {"ips": None},
        {"ips": [{"address": "x"}]},
        {"ips": ["10.0.0.2/24"]},
        {"ips": [{}]},
    ]
    for wrong in wrongs:
        with pytest.raises(NetworkError):
            address_of(wrong)


@given(st.from_regex(r"[a-z][a-z0-9-]{0,30}", fullmatch=True))
def test_a_bridges_name_fits_the_kernel(name: str) -> None:
    assert 0 < len(bridge_name(name)) <= 15
