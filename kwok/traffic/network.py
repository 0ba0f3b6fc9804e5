"""The lab's network namespace, in which one socket answers for the addresses of all its pods.

`local 10.0.0.0/8 dev lo` (AnyIP) makes every pod address (`kwok.nodes`) local, inside the namespace only:
the host's network is not changed. A socket belongs to the namespace in which it was created, so host
processes open their sockets inside and stay outside.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pyroute2 import IPRoute, netns

from kwok.errors import LabError
from kwok.network_namespace import namespace_path

__all__ = ["inside", "make_namespace", "why_no_namespace"]

_POD_ADDRESSES = "10.0.0.0/8"  # kwok.nodes gives each node a /24 of these
_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}  # <linux/capability.h>
# Datagrams that a unix socket queues; the kernel's default of 10 would lose the gateway's log lines.
_DATAGRAMS = 65_536

T = TypeVar("T")


def why_no_namespace() -> str | None:
    """Why this process cannot create a network namespace; None if it can."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return "network namespaces need Linux"
    effective = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    lacking = [name for name, bit in _CAPABILITIES.items() if not effective >> bit & 1]
    return f"network namespaces need {' and '.join(lacking)}: run as root" if lacking else None


def make_namespace(directory: Path) -> Path:
    """Create the namespace of the lab in `directory`; it is removed with the lab."""
    if reason := why_no_namespace():
        raise LabError(reason)
    path = namespace_path(directory)
    netns.create(path.name)
    with IPRoute(netns=path.name) as routes:
        loopback = routes.link_lookup(ifname="lo")[0]
        routes.link("set", index=loopback, state="up")
        routes.route("add", dst=_POD_ADDRESSES, oif=loopback, type="local", scope="host", table=255)
    inside(path, lambda: Path("/proc/sys/net/unix/max_dgram_qlen").write_text(str(_DATAGRAMS)))
    return path


def inside(namespace: Path, act: Callable[[], T]) -> T:
    """Run `act` in a thread inside the namespace and return its result. Only that thread enters the
    namespace."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            netns.setns(str(namespace), flags=0)
            outcome.append(act())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="inside")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
