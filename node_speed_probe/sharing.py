"""Compute tau_c from creations that share a node's speed, by virtual time.

A creation first passes its latency at full speed, then contends with the others that have passed theirs:
while k of these run, each progresses at 1 / crowding(k) (cluster_model/contention.py). So per node V(t) =
integral of dt / crowding(k(t)) is kept, and a creation of m containers that began at a, contended from c, and
ended at b gives the sample

    tau_c = (c - a + V(b) - V(c)) / work(m)

The latency c - a is a share of work(m) * tau_c, which is not known yet: the present estimate stands in. If
that is wrong by a factor, the sample is wrong by less, so estimates converge.

In the paper's form there is no latency, crowding(k) = k and work(m) = m. Under processor sharing the sample
is then exact for every creation, however crowded the node was. For any node that is never idle while it has
work (first come, first served, say) single samples scatter, but their sum over a busy period is that
period's length,

    sum_i (V(b_i) - V(a_i)) = integral of sum_i 1[i runs] / k(t) dt = busy time,

so their mean, weighted by m, is busy time / containers = tau_c.

Some creations do not take part in the sharing: one that waits for an image pull or for an init
container's program is paused; one far beyond the estimate is stalled. A stalled one would make the
others look fast, so the others share without it; it keeps a second clock on which all still share, in
case it was the node that stalled, and its sample is right again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cluster_model.contention import Sharing

__all__ = ["Creation", "SharedNode", "VirtualClock"]


class VirtualClock:
    """V(t): advances at 1 / slowdown(k) while k jobs take part, and stops while none does."""

    __slots__ = ("_at_s", "_slowdown", "members", "value_s")

    def __init__(self, slowdown: Callable[[float], float], now_s: float) -> None:
        self._slowdown, self._at_s, self.members, self.value_s = slowdown, now_s, 0, 0.0

    def advance(self, now_s: float) -> None:
        if now_s > self._at_s:  # arrival times of two watches may cross
            if self.members:
                self.value_s += (now_s - self._at_s) / self._slowdown(self.members)
            self._at_s = now_s


@dataclass(slots=True)
class Creation:
    """One pod being created."""

    node: str
    containers: int
    work: float
    began_s: float
    latency_left_s: float
    unsampled: str  # why it gives no sample; empty if it does
    unexplained: set[str]  # images that the node lacked and without an Event about a pull
    pulling: set[str] = field(default_factory=set)
    running_init: bool = False
    stalled: bool = False
    latent_since_s: float | None = None  # None: paused, or past its latency
    clock: VirtualClock | None = None  # the clock that it progresses on; None while paused or latent
    mark_s: float = 0.0
    accrued_s: float = 0.0

    @property
    def contends_from_s(self) -> float:
        return float("inf") if self.latent_since_s is None else self.latent_since_s + self.latency_left_s

    def progress_s(self, now_s: float) -> float:
        """Virtual seconds per unit of work so far. The clocks must be up to date."""
        running_s = self.clock.value_s - self.mark_s if self.clock else 0.0
        if self.latent_since_s is not None:
            running_s = max(now_s - self.latent_since_s, 0.0)
        return (self.accrued_s + running_s) / self.work


class SharedNode:
    """A node, its clocks and the creations on it. Call `advance` before reading a clock."""

    __slots__ = (
        "_now_s",
        "creations",
        "everyone",
        "images_listed",
        "images_used",
        "latest_done_began_s",
        "sharing",
    )

    def __init__(self, sharing: Sharing, now_s: float) -> None:
        self._now_s = now_s
        self.sharing = VirtualClock(sharing.crowding, now_s)  # without stalled creations
        self.everyone = VirtualClock(sharing.crowding, now_s)
        self.creations: dict[str, Creation] = {}
        self.latest_done_began_s = -float("inf")
        self.images_listed: frozenset[str] = frozenset()
        # The kubelet lists at most 50 images, and late. An image that ran here is here.
        self.images_used: set[str] = set()

    @property
    def creating(self) -> int:
        """Creations in progress, without paused and stalled ones."""
        latent = sum(c.latent_since_s is not None and not c.stalled for c in self.creations.values())
        return self.sharing.members + latent

    def advance(self, now_s: float) -> None:
        due = [c for c in self.creations.values() if c.contends_from_s <= now_s]
        for creation in sorted(due, key=lambda c: c.contends_from_s):
            self._tick(creation.contends_from_s)
            self.place(creation)
        self._tick(now_s)

    def overtook(self, creation: Creation) -> bool:
        """Whether a later creation is already done. Then the node is not what holds this one up."""
        return self.latest_done_began_s > creation.began_s

    def place(self, creation: Creation) -> None:
        """Put the creation on the clock that it belongs to now."""
        self._leave(creation)
        if creation.pulling or creation.running_init:
            return
        if creation.latency_left_s > 0:
            creation.latent_since_s = self._now_s
            return
        creation.clock = self.everyone if creation.stalled else self.sharing
        creation.mark_s = creation.clock.value_s
        self._count(creation, 1)

    def remove(self, uid: str) -> Creation:
        creation = self.creations.pop(uid)
        self._leave(creation)
        return creation

    def _tick(self, now_s: float) -> None:
        self._now_s = max(self._now_s, now_s)
        self.sharing.advance(now_s)
        self.everyone.advance(now_s)

    def _leave(self, creation: Creation) -> None:
        if creation.latent_since_s is not None:
            passed_s = self._now_s - creation.latent_since_s
            creation.accrued_s += passed_s
            # Whoever leaves when its latency is over has none left, however the times are rounded.
            over = self._now_s >= creation.contends_from_s
            creation.latency_left_s = 0.0 if over else creation.latency_left_s - passed_s
            creation.latent_since_s = None
        if creation.clock is not None:
            creation.accrued_s += creation.clock.value_s - creation.mark_s
            self._count(creation, -1)
            creation.clock = None

    def _count(self, creation: Creation, change: int) -> None:
        self.everyone.members += change
        if creation.clock is self.sharing:
            self.sharing.members += change
