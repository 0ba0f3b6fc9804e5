"""The rules in an instance's network namespace, in the language of iptables-restore.

An instance may reach what is not denied: not the node, not other instances, not link-local addresses. Only
the gateways and the node reach it. It has no capability to change a rule, or to go around one
(CAP_NET_RAW). IPv6 is switched off in the
namespace.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

__all__ = ["Rules", "restore"]


@dataclass(frozen=True)
class Rules:
    node: frozenset[str]  # its own addresses
    instances: str  # the network of instances; empty where it is the pods'
    gateways: frozenset[str]  # networks and addresses
    denied: tuple[str, ...]
    allowed: tuple[str, ...]
    nameservers: tuple[str, ...]


def restore(rules: Rules) -> str:
    """Raise ValueError for what is no IPv4 address or network: nothing else reaches iptables."""
    lines = [
        "*filter",
        ":INPUT DROP [0:0]",
        ":FORWARD DROP [0:0]",
        ":OUTPUT ACCEPT [0:0]",
        "-A INPUT -i lo -j ACCEPT",
        "-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
        *(f"-A INPUT -s {each} -j ACCEPT" for each in _networks({*rules.gateways, *rules.node})),
        "-A OUTPUT -o lo -j ACCEPT",
        "-A OUTPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
    ]
    for each in _networks(rules.nameservers):
        lines += [f"-A OUTPUT -d {each} -p {protocol} --dport 53 -j ACCEPT" for protocol in ("udp", "tcp")]
    denied = [*rules.denied, *sorted(rules.node), *([rules.instances] if rules.instances else [])]
    lines += [
        *(f"-A OUTPUT -d {each} -j ACCEPT" for each in _networks(rules.allowed)),
        *(f"-A OUTPUT -d {each} -j REJECT" for each in _networks(denied)),
        "COMMIT",
    ]
    return "\n".join(lines) + "\n"


def _networks(texts: Collection[str] | Sequence[str]) -> list[str]:
    ordered = sorted(texts) if isinstance(texts, set | frozenset) else texts
    return [str(IPv4Network(text) if "/" in text else IPv4Address(text)) for text in ordered]
