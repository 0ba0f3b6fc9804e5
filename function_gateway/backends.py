"""What HAProxy should be told so that each pod gets what it can take. Pure.

A function has a backend, a pod one of its slots (`server` lines that are there from the start). A slot's
`maxconn` is the pod's concurrency and its weight goes with it, so that pods of several sizes fill up at
the same rate (section 5.1: traffic is shared by capacity).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from surgekit.haproxy.runtime import ServerState
from surgekit.haproxy.slots import Slots

__all__ = ["Pod", "Server", "difference", "known", "slot_name", "wanted", "weights"]

_MOST_WEIGHT = 256  # HAProxy's


@dataclass(frozen=True)
class Pod:
    """A pod that takes requests, `concurrency` at once."""

    address: str
    port: int
    concurrency: int

    @property
    def name(self) -> str:
        """Of its slot: to HAProxy a pod is where it answers."""
        return f"{self.address}:{self.port}"


@dataclass(frozen=True)
class Server:
    """A slot that a pod has."""

    address: str
    port: int
    weight: int
    maxconn: int


def weights(concurrency: Sequence[int]) -> list[int]:
    """In proportion to concurrency: equal to it while none has more than 256, so that a resize changes one
    weight only; else 256 for the largest and the others' share of that, rounded, at least 1."""
    most = max(concurrency, default=1)
    if most <= _MOST_WEIGHT:
        return list(concurrency)
    return [max(1, round(_MOST_WEIGHT * q / most)) for q in concurrency]


def wanted(slots: Slots, pods: Iterable[Pod]) -> dict[int, Server]:
    """The slots as they should be; `slots` learns whose they are. Those past the slots get nothing."""
    by_name = {pod.name: pod for pod in pods}
    slots.update(by_name)
    placed = [(number, by_name[name]) for name, number in slots.taken.items()]
    shares = weights([pod.concurrency for _, pod in placed])
    return {
        number: Server(pod.address, pod.port, weight, pod.concurrency)
        for (number, pod), weight in zip(placed, shares, strict=True)
    }


def known(count: int, servers: Iterable[ServerState]) -> tuple[Slots, dict[int, Server]]:
    """What a HAProxy that runs already was told, by whoever drove it before.

    Its maxconn is not read back: 0 is what nobody wants, so it is told again.
    """
    taken, left, told = {}, {}, {}
    for server in servers:
        number, name = int(server.name.removeprefix("s")), Pod(server.address, server.port, 0).name
        if server.weight:
            taken[number] = name
            told[number] = Server(server.address, server.port, server.weight, 0)
        else:
            left[number] = name
    return Slots(count, taken, left), told


def difference(backend: str, told: Mapping[int, Server], now: Mapping[int, Server]) -> list[str]:
    """The commands that lead from what HAProxy was told to what it should know now.

    A slot that is left has weight 0: it gets no more requests, those it has go on. (Maintenance would do
    that, too. But HAProxy 3.0 refuses what a backend has queued when its last server goes there, and a server
    of 2.6 that comes out of it takes from the queue without counting: twice its maxconn was seen.)
    """
    opened, changed, left = [], [], []
    for number, server in sorted(now.items()):
        name, before = f"{backend}/{slot_name(number)}", told.get(number)
        if before is None:
            opened += _opened(name, server)
        elif (before.address, before.port) != (server.address, server.port):
            changed += [f"set server {name} weight 0", *_opened(name, server)]
        else:
            if before.maxconn != server.maxconn:
                changed.append(f"set maxconn server {name} {server.maxconn}")
            if before.weight != server.weight:
                changed.append(f"set server {name} weight {server.weight}")
    for number in sorted(told.keys() - now.keys()):
        left.append(f"set server {backend}/{slot_name(number)} weight 0")
    return opened + changed + left


def _opened(name: str, server: Server) -> list[str]:
    """A slot for another pod. Its weight does not make it take from the queue; maxconn said again does."""
    return [
        f"set server {name} addr {server.address} port {server.port}",
        f"set maxconn server {name} {server.maxconn}",
        f"set server {name} weight {server.weight}",
        f"set maxconn server {name} {server.maxconn}",
    ]


def slot_name(number: int) -> str:
    return f"s{number}"
