"""The rules, read as the kernel reads them: the first that fits decides."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst_plane.instance.firewall import Rules, restore

ADDRESSES = st.ip_addresses(v=4).map(str)
NETWORKS = st.tuples(st.ip_addresses(v=4), st.integers(8, 32)).map(
    lambda pair: str(ip_network(pair, strict=False))
)
RULES = st.builds(
    Rules,
    node=st.frozensets(ADDRESSES, max_size=3),
    instances=st.just("") | NETWORKS,
    gateways=st.frozensets(ADDRESSES | NETWORKS, max_size=3),
    denied=st.lists(NETWORKS, max_size=3).map(tuple),
    allowed=st.lists(NETWORKS, max_size=3).map(tuple),
    nameservers=st.lists(ADDRESSES, max_size=2).map(tuple),
)


def decide(rules: str, chain: str, address: str, port: int = 80, protocol: str = "tcp") -> str:
    """What becomes of a new connection on the instance's link."""
    for line in rules.splitlines():
        words = line.split()
        if words[:2] != ["-A", chain] or "conntrack" in words or words[2:4] in (["-i", "lo"], ["-o", "lo"]):
            continue
        given_ = dict(zip(words[2::2], words[3::2], strict=True))
        place = given_.get("-s") or given_.get("-d")
        if place is not None and ip_address(address) not in ip_network(place):
            continue
        if given_.get("-p", protocol) == protocol and given_.get("--dport", str(port)) == str(port):
            return given_["-j"]
    (policy,) = (line.split()[1] for line in rules.splitlines() if line.startswith(f":{chain} "))
    return policy


def within(address: str, networks: list[str]) -> bool:
    return any(ip_address(address) in ip_network(each) for each in networks)


@given(RULES, ADDRESSES, st.data())
def test_what_is_denied_cannot_be_reached(rules: Rules, other: str, data: st.DataObject) -> None:
    text = restore(rules)
    denied = [*rules.denied, *rules.node, *([rules.instances] if rules.instances else [])]
    firsts = [str(ip_network(each).network_address) for each in denied]
    address = data.draw(st.sampled_from([*firsts, other]))
    expected = "REJECT" if within(address, denied) and not within(address, list(rules.allowed)) else "ACCEPT"
    assert decide(text, "OUTPUT", address) == expected
    resolves = address in rules.nameservers
    assert decide(text, "OUTPUT", address, 53, "udp") == ("ACCEPT" if resolves else expected)


@given(RULES, ADDRESSES)
def test_only_gateways_and_the_node_come_in(rules: Rules, address: str) -> None:
    may = within(address, [*rules.gateways, *rules.node])
    assert decide(restore(rules), "INPUT", address) == ("ACCEPT" if may else "DROP")
    assert decide(restore(rules), "FORWARD", address) == "DROP"


@pytest.mark.parametrize("text", ["", "x", "10.0.0.0/8\n-A INPUT -j ACCEPT", "fd00::1", "10.0.0.1 -j ACCEPT"])
def test_what_is_no_address_reaches_no_rule(text: str) -> None:
    empty: frozenset[str] = frozenset()
    with pytest.raises(ValueError, match=r".*"):
        restore(Rules(empty, "", frozenset({text}), (), (), ()))
    with pytest.raises(ValueError, match=r".*"):
        restore(Rules(empty, "", empty, (), (), (text,)))
