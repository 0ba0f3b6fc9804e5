"""Decide whether a resize in place is granted, deferred or refused, as a kubelet does.

KEP-1287 as in the kubelet of Kubernetes 1.36 (pkg/kubelet/allocation). Requests count, and a granted amount
counts from that moment on, before it has been carried out. More than the node's allocatable is Infeasible
and not retried. What does not fit beside the other pods is Deferred and retried whenever resources are
freed: first resizes that ask for no more than they have, then the longest waiting, each one that fits. (The
kubelet also sorts by priority and QoS class; pods here have one of each.)
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Amount", "Refusal", "Rooms"]


@dataclass(frozen=True)
class Amount:
    """A pod's requests, or a node's resources."""

    cpu_millicores: int
    memory_bytes: int

    @property
    def amounts(self) -> tuple[tuple[str, int], ...]:
        return (("cpu", self.cpu_millicores), ("memory", self.memory_bytes))


@dataclass(frozen=True)
class Refusal:
    reason: str  # of the condition PodResizePending
    message: str  # the kubelet's text


@dataclass
class _Room:
    allocatable: Amount | None
    held: dict[str, Amount]
    asked: dict[str, Amount]  # deferred, longest waiting first


class Rooms:
    """The resources held on every node, and the deferred resizes."""

    def __init__(self) -> None:
        self._rooms: dict[str, _Room] = {}
        self._where: dict[str, str] = {}

    def allocatable(self, node: str, amount: Amount) -> None:
        self._at(node).allocatable = amount

    def hold(self, pod: str, node: str, amount: Amount) -> None:
        if pod not in self._where:
            self._where[pod] = node
            self._at(node).held[pod] = amount

    def release(self, pod: str) -> None:
        if node := self._where.pop(pod, None):
            self._rooms[node].held.pop(pod, None)
            self._rooms[node].asked.pop(pod, None)

    def forget_asked(self, pod: str) -> None:
        if node := self._where.get(pod):
            self._rooms[node].asked.pop(pod, None)

    def held(self, node: str) -> Amount:
        """The sum over all pods of a node."""
        held = self._at(node).held.values()
        return Amount(sum(a.cpu_millicores for a in held), sum(a.memory_bytes for a in held))

    def ask(self, pod: str, node: str, amount: Amount) -> Refusal | None:
        """Request `amount`; None if it is granted and held from now on. Replaces a deferred request of the
        pod."""
        self.hold(pod, node, amount)
        room = self._at(node)
        room.asked.pop(pod, None)
        refusal = _refusal(room, pod, amount)
        if refusal is None:
            room.held[pod] = amount
        elif refusal.reason == "Deferred":
            room.asked[pod] = amount
        return refusal

    def retry(self, node: str) -> list[str]:
        """Grant deferred resizes that fit now; the pods."""
        room, granted = self._at(node), []
        order = sorted(room.asked, key=lambda pod: _grows(room.held[pod], room.asked[pod]))  # stable
        for pod in order:
            if _refusal(room, pod, room.asked[pod]) is None:
                room.held[pod] = room.asked.pop(pod)
                granted.append(pod)
        return granted

    def _at(self, node: str) -> _Room:
        return self._rooms.setdefault(node, _Room(None, {}, {}))


def _grows(had: Amount, asked: Amount) -> bool:
    return any(more > less for (_, more), (_, less) in zip(asked.amounts, had.amounts, strict=True))


def _refusal(room: _Room, pod: str, amount: Amount) -> Refusal | None:
    if room.allocatable is None:
        return None
    for (resource, asked), (_, most) in zip(amount.amounts, room.allocatable.amounts, strict=True):
        if asked > most:
            text = f"Node didn't have enough capacity: {resource}, requested: {asked}, capacity: {most}"
            return Refusal("Infeasible", text)
    others = [held for name, held in room.held.items() if name != pod]
    for i, (resource, asked) in enumerate(amount.amounts):
        used, most = sum(held.amounts[i][1] for held in others), room.allocatable.amounts[i][1]
        if asked > most - used:
            text = (
                f"Node didn't have enough resource: {resource},"
                f" requested: {asked}, used: {used}, capacity: {most}"
            )
            return Refusal("Deferred", text)
    return None
