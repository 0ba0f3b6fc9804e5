"""Create network namespaces, and act inside them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pyroute2 import IPRoute, netns

from kwok.errors import LabError
from kwok.network_namespace import namespace_path

__all__ = ["inside", "make_namespace", "routes_in", "why_no_namespace"]

_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}  # <linux/capability.h>

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


def make_namespace(directory: Path, role: str) -> Path:
    """Create a namespace of the lab in `directory`, with loopback up; it is removed with the lab."""
    if reason := why_no_namespace():
        raise LabError(reason)
    path = namespace_path(directory, role)
    netns.create(path.name)
    with routes_in(path) as routes:
        routes.link("set", index=routes.link_lookup(ifname="lo")[0], state="up")
    return path


def routes_in(namespace: Path) -> Any:
    """Links, addresses and routes of a namespace, as pyroute2 shows them; close it after use."""
    return IPRoute(netns=str(namespace))


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
