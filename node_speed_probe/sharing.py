"""Compute tau_c from creations that share a node's speed, by virtual time.

A node shares its creation speed (ComboFunc fig. 2): while k creations run, each progresses at 1/k. So
per node V(t) = integral of dt / k(t) is kept, and a creation of m containers that ran from a to b gives
the sample tau_c = (V(b) - V(a)) / m. Under processor sharing that is exact for every creation, however
crowded the node was. For any node that is never idle while it has work (first come, first served, say)
single samples scatter, but their sum over a busy period is that period's length,

    sum_i (V(b_i) - V(a_i)) = integral of sum_i 1[i runs] / k(t) dt = busy time,

so their mean, weighted by m, is busy time / containers = tau_c.

Some creations do not take part in the sharing: one that waits for an image pull or for an init
container's program is paused; one far beyond the estimate is stalled. A stalled one would make the
others look fast, so the others share without it; it keeps a second clock on which all still share, in
case it was the node that stalled, and its sample is right again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Creation", "SharedNode", "VirtualClock"]


class VirtualClock:
    """V(t): advances at 1/k while k creations take part, and stops while none does."""

    __slots__ = ("_at_s", "members", "value_s")

    def __init__(self, now_s: float) -> None:
        self._at_s, self.members, self.value_s = now_s, 0, 0.0

    def advance(self, now_s: float) -> None:
        if now_s > self._at_s:  # arrival times of two watches may cross
            if self.members:
                self.value_s += (now_s - self._at_s) / self.members
            self._at_s = now_s


@dataclass(slots=True)
class Creation:
    """One pod being created."""

    node: str
    containers: int
    began_s: float
    unsampled: str  # why it gives no sample; empty if it does
    unexplained: set[str]  # images that the node lacked and without an Event about a pull
    pulling: set[str] = field(default_factory=set)
    running_init: bool = False
    stalled: bool = False
    clock: VirtualClock | None = None  # the clock that it progresses on; None while paused
    mark_s: float = 0.0
    accrued_s: float = 0.0

    def progress_s(self) -> float:
        """Virtual seconds per container so far. The clocks must be up to date."""
        running_s = self.clock.value_s - self.mark_s if self.clock else 0.0
        return (self.accrued_s + running_s) / self.containers


class SharedNode:
    """A node, its clocks and the creations on it. Call `advance` before reading a clock."""

    __slots__ = ("creations", "everyone", "images_listed", "images_used", "latest_done_began_s", "sharing")

    def __init__(self, now_s: float) -> None:
        self.sharing = VirtualClock(now_s)  # without stalled creations
        self.everyone = VirtualClock(now_s)
        self.creations: dict[str, Creation] = {}
        self.latest_done_began_s = -float("inf")
        self.images_listed: frozenset[str] = frozenset()
        # The kubelet lists at most 50 images, and late. An image that ran here is here.
        self.images_used: set[str] = set()

    def advance(self, now_s: float) -> None:
        self.sharing.advance(now_s)
        self.everyone.advance(now_s)

    def overtook(self, creation: Creation) -> bool:
        """Whether a later creation is already done. Then the node is not what holds this one up."""
        return self.latest_done_began_s > creation.began_s

    def place(self, creation: Creation) -> None:
        """Put the creation on the clock that it belongs to now."""
        self._leave(creation)
        if creation.pulling or creation.running_init:
            return
        creation.clock = self.everyone if creation.stalled else self.sharing
        creation.mark_s = creation.clock.value_s
        self._count(creation, 1)

    def remove(self, uid: str) -> Creation:
        creation = self.creations.pop(uid)
        self._leave(creation)
        return creation

    def _leave(self, creation: Creation) -> None:
        if creation.clock is not None:
            creation.accrued_s += creation.clock.value_s - creation.mark_s
            self._count(creation, -1)
            creation.clock = None

    def _count(self, creation: Creation, change: int) -> None:
        self.everyone.members += change
        if creation.clock is self.sharing:
            self.sharing.members += change
