"""Compute the HAProxy commands that give each pod as many requests as it takes. Pure.

A function has a backend, and each of its pods has one slot of that backend (a `server` line that exists
from the start). A slot's `maxconn` is the pod's concurrency. Its weight is in proportion, so that pods of
several sizes fill up at the same rate (section 5.1: traffic is shared by capacity).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from surgekit.haproxy.runtime import ServerState
from surgekit.haproxy.slots import Slots

__all__ = [
    "Pod",
    "Server",
    "desired",
    "difference",
    "read_back",
    "slot_name",
    "slot_number",
    "unused",
    "weights",
]

_MOST_WEIGHT = 256  # the most that HAProxy accepts
_SLOT = re.compile(r"s(\d+)")


@dataclass(frozen=True)
class Pod:
    """A pod that takes `concurrency` requests at once."""

    address: str
    port: int
    concurrency: int

    @property
    def name(self) -> str:
        """The owner name of its slot: HAProxy identifies a pod by its address."""
        return f"{self.address}:{self.port}"


@dataclass(frozen=True)
class Server:
    """The settings of a slot that belongs to a pod."""

    address: str
    port: int
    weight: int
    maxconn: int


def weights(concurrency: Sequence[int]) -> list[int]:
    """Weights in proportion to concurrency. While no pod has more than 256, the weight is the concurrency,
    so that a resize changes one weight only. Otherwise the largest pod gets 256 and the others a rounded
    share of that, at least 1."""
    most = max(concurrency, default=1)
    if most <= _MOST_WEIGHT:
        return list(concurrency)
    return [max(1, round(_MOST_WEIGHT * q / most)) for q in concurrency]


def desired(slots: Slots, pods: Iterable[Pod]) -> dict[int, Server]:
    """The desired settings of each slot. Updates the owners in `slots`; pods without a slot are left out."""
    by_name = {pod.name: pod for pod in pods}
    slots.update(by_name)
    placed = [(number, by_name[name]) for name, number in slots.taken.items()]
    shares = weights([pod.concurrency for _, pod in placed])
    return {
        number: Server(pod.address, pod.port, weight, pod.concurrency)
        for (number, pod), weight in zip(placed, shares, strict=True)
    }


def unused(pods: Sequence[Pod], elsewhere: Mapping[str, int]) -> Sequence[Pod]:
    """The pods without what other replicas still have in flight there; pods without a free place are left
    out."""
    if not elsewhere:
        return pods
    free = (replace(pod, concurrency=pod.concurrency - elsewhere.get(pod.name, 0)) for pod in pods)
    return tuple(pod for pod in free if pod.concurrency > 0)


def read_back(count: int, servers: Iterable[ServerState]) -> tuple[Slots, dict[int, Server]]:
    """Read back the slots and settings of a running HAProxy, after a restart of the balancer.

    HAProxy does not report maxconn. It is set to 0 here, which no pod has, so that it is sent again.
    """
    taken, left, sent = {}, {}, {}
    for server in servers:
        if (number := slot_number(server.name)) is None:
            continue  # the emergency track, and the backup
        name = Pod(server.address, server.port, 0).name
        if server.weight:
            taken[number] = name
            sent[number] = Server(server.address, server.port, server.weight, 0)
        else:
            left[number] = name
    return Slots(count, taken, left), sent


def difference(backend: str, sent: Mapping[int, Server], now: Mapping[int, Server]) -> list[str]:
    """The commands that change HAProxy from the `sent` settings to the settings in `now`.

    A slot without a pod gets weight 0: it takes no new requests and finishes the ones it has. Maintenance
    mode is not used: HAProxy 3.0 refuses queued requests when the last server of a backend enters it, and
    in 2.6 a server that leaves it takes from the queue without counting (twice its maxconn was seen).
    """
    opened, changed, left = [], [], []
    for number, server in sorted(now.items()):
        name, before = f"{backend}/{slot_name(number)}", sent.get(number)
        if before is None:
            opened += _opened(name, server)
        elif (before.address, before.port) != (server.address, server.port):
            changed += [f"set server {name} weight 0", *_opened(name, server)]
        else:
            if before.maxconn != server.maxconn:
                changed.append(f"set maxconn server {name} {server.maxconn}")
            if before.weight != server.weight:
                changed.append(f"set server {name} weight {server.weight}")
    for number in sorted(sent.keys() - now.keys()):
        left.append(f"set server {backend}/{slot_name(number)} weight 0")
    return opened + changed + left


def _opened(name: str, server: Server) -> list[str]:
    """Give a slot to a pod. A changed weight does not make it take from the queue; setting maxconn again
    does."""
    return [
        f"set server {name} addr {server.address} port {server.port}",
        f"set maxconn server {name} {server.maxconn}",
        f"set server {name} weight {server.weight}",
        f"set maxconn server {name} {server.maxconn}",
    ]


def slot_name(number: int) -> str:
    return f"s{number}"


def slot_number(name: str) -> int | None:
    found = _SLOT.fullmatch(name)
    return int(found[1]) if found else None
