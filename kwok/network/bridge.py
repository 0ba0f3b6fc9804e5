"""The bridge of a lab with real nodes, and what joins it.

The control plane lives in the bridge's namespace and routes between all that joined: each has its address
on the bridge, a range of pods behind it, and its default route to the control plane.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from kwok.network import addresses
from kwok.network.namespaces import inside, make_namespace, routes_in
from kwok.network_namespace import CONTROL_PLANE, namespace_path

__all__ = ["create", "join"]

_BRIDGE, _MEMBER = "lab", "eth0"


def create(directory: Path) -> None:
    """Create the namespace of the lab's control plane, with the bridge."""
    path = make_namespace(directory, CONTROL_PLANE)
    with routes_in(path) as routes:
        routes.link("add", ifname=_BRIDGE, kind="bridge")
        index = routes.link_lookup(ifname=_BRIDGE)[0]
        _address(routes, index, addresses.CONTROL_PLANE)
        # Only kube-proxy knows where a Service is, but it sees a packet after its route was looked up.
        routes.route("add", dst=str(addresses.SERVICES), oif=index)
    inside(path, _forward)


def join(
    directory: Path, name: str, namespace: Path, address: IPv4Address, pods: IPv4Network | None = None
) -> None:
    """Connect a namespace to the bridge, at `address`, with `pods` behind it, if any."""
    path = namespace_path(directory, CONTROL_PLANE)
    with routes_in(path) as routes, namespace.open() as joining:
        peer = {"ifname": _MEMBER, "net_ns_fd": joining.fileno()}
        routes.link("add", ifname=name, kind="veth", peer=peer)
        index = routes.link_lookup(ifname=name)[0]
        routes.link("set", index=index, master=routes.link_lookup(ifname=_BRIDGE)[0], state="up")
        if pods:
            routes.route("replace", dst=str(pods), gateway=str(address))
    with routes_in(namespace) as routes:
        routes.link("set", index=routes.link_lookup(ifname="lo")[0], state="up")
        _address(routes, routes.link_lookup(ifname=_MEMBER)[0], address)
        routes.route("add", dst="default", gateway=str(addresses.CONTROL_PLANE))
        if not pods:
            # Not through the control plane, which would not see the answers: they come over the bridge, and
            # kube-proxy's rules drop half a connection.
            routes.route("add", dst=str(addresses.EMULATED_PODS), gateway=str(addresses.TRAFFIC))
    inside(namespace, _forward)


def _address(routes: Any, index: int, address: IPv4Address) -> None:
    routes.addr("add", index=index, address=str(address), prefixlen=addresses.LINK.prefixlen)
    routes.link("set", index=index, state="up")


def _forward() -> None:
    """Route packets for others."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
