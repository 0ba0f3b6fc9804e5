"""The namespace in which one socket answers for the addresses of all emulated pods.

An AnyIP route makes every pod address (`kwok.network.addresses`) local, inside the namespace only: the host's
network is not changed. A socket belongs to the namespace in which it was created, so host processes open
their sockets inside and stay outside. In a lab with real nodes the namespace joins the lab's bridge, so that
real pods, Services and the control plane reach emulated pods, too.
"""

from __future__ import annotations

from pathlib import Path

from kwok.network import addresses, bridge
from kwok.network.namespaces import inside, make_namespace, routes_in
from kwok.network_namespace import EMULATED_PODS, has_network, namespace_path

__all__ = ["make_traffic_namespace"]

# Datagrams that a unix socket queues; the kernel's default of 10 would lose the gateway's log lines.
_DATAGRAMS = 65_536


def make_traffic_namespace(directory: Path) -> Path:
    """The namespace of the lab in `directory`, created when first asked for; it is removed with the lab."""
    if (path := namespace_path(directory, EMULATED_PODS)).exists():
        return path
    make_namespace(directory, EMULATED_PODS)
    with routes_in(path) as routes:
        loopback = routes.link_lookup(ifname="lo")[0]
        routes.route(
            "add", dst=str(addresses.EMULATED_PODS), oif=loopback, type="local", scope="host", table=255
        )
    inside(path, lambda: Path("/proc/sys/net/unix/max_dgram_qlen").write_text(str(_DATAGRAMS)))
    if has_network(directory):
        bridge.join(directory, "traffic", path, addresses.TRAFFIC, addresses.EMULATED_PODS)
    return path
