"""CNI: the node's network configuration, and what one plugin of it is asked.

https://github.com/containernetworking/cni/blob/main/SPEC.md (0.4.0 and 1.0.0)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface
from typing import Any

import msgspec

__all__ = ["Chain", "NetworkError", "address_of", "bridge_name", "own_bridge", "read_chain", "request"]

_PLUGIN_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LONGEST_LINK = 15  # IFNAMSIZ less the zero byte


class NetworkError(ValueError):
    """A configuration, or a plugin's answer, that makes no sense."""


@dataclass(frozen=True)
class Chain:
    """Plugins that are called one after the other."""

    name: str
    version: str
    plugins: tuple[Mapping[str, Any], ...]


def read_chain(document: bytes) -> Chain:
    """A .conflist, or a .conf with one plugin."""
    whole = _decode(document)
    plugins = whole.get("plugins", [whole])
    name = whole.get("name")
    if not isinstance(plugins, list) or not plugins or not isinstance(name, str):
        raise NetworkError("a CNI configuration has a name and plugins")
    for plugin in plugins:
        kind = plugin.get("type") if isinstance(plugin, dict) else None
        if not isinstance(kind, str) or not kind or not set(kind) <= _PLUGIN_NAME or kind.startswith("."):
            raise NetworkError("a CNI plugin has a type")
    return Chain(name, str(whole.get("cniVersion", "0.4.0")), tuple(plugins))


def bridge_name(name: str) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    return name if len(name) <= _LONGEST_LINK else f"{name[:8]}-{digest}"


def own_bridge(name: str, subnet: str, data: str) -> Chain:
    """For a node without CNI: a bridge that routes. Masquerading is one rule for all, made elsewhere."""
    plugin = {
        "type": "bridge",
        "bridge": bridge_name(name),
        "isGateway": True,
        "isDefaultGateway": True,
        "ipMasq": False,
        "ipam": {"type": "host-local", "dataDir": data, "ranges": [[{"subnet": subnet}]]},
    }
    return Chain(name, "0.4.0", (plugin,))


def request(chain: Chain, plugin: Mapping[str, Any], previous: Mapping[str, Any] | None) -> bytes:
    """What a plugin reads from its standard input."""
    asked = {**plugin, "name": chain.name, "cniVersion": chain.version}
    return msgspec.json.encode(asked | ({"prevResult": previous} if previous is not None else {}))


def address_of(result: Mapping[str, Any]) -> str:
    """The IPv4 address in the last plugin's result."""
    found: Sequence[Any] = result.get("ips") or ()
    for each in found:
        try:
            return str(IPv4Interface(each["address"]).ip)
        except (ValueError, TypeError, KeyError):
            continue
    raise NetworkError("the CNI plugins gave no IPv4 address")


def _decode(document: bytes) -> dict[str, Any]:
    try:
        whole = msgspec.json.decode(document)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise NetworkError(f"not JSON: {error}") from error
    if not isinstance(whole, dict):
        raise NetworkError("not a JSON object")
    return whole
