"""Track one function of one arm: how long scaling took, and what was reserved meanwhile.

The scaling time of a rise is the time until the ready concurrency reaches the target; 0 if it is ready
already, so that all arms are measured on the same rises. If the target rises again meanwhile, the first
measurement goes on. If it falls below the first target, the measurement ends, because nobody waits any
more. Such rises, and those in progress at the end, count as `cut_short` with the time they had.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from experiments.combofunc.workload import Size

__all__ = ["PRICE_SWING", "Holding", "Track"]

PRICE_SWING = 0.5  # x of eqs (7) and (8): the planner's default
GIB = 1 << 30


@dataclass(frozen=True)
class Holding:
    """A container, ready or not, and its node's free share."""

    size: Size
    cpu_free_share: float
    memory_free_share: float

    @property
    def price(self) -> float:
        """B_np of eq. (9), at the current prices of eqs (7) and (8); cores and GiB."""
        cpu, memory = _price(self.cpu_free_share), _price(self.memory_free_share)
        return cpu * self.size.cpu_millicores / 1000 + memory * self.size.memory_bytes / GIB


def _price(free_share: float) -> float:
    return free_share * (1 + PRICE_SWING) + (1 - free_share) * (1 - PRICE_SWING)


@dataclass
class Track:
    scaling_s: list[float] = field(default_factory=list)  # of each rise
    cut_short: int = 0
    at_s: list[float] = field(default_factory=list)  # of each sample
    target: list[int] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)
    replicas: list[int] = field(default_factory=list)
    concurrency: list[int] = field(default_factory=list)  # of all that is there
    price: list[float] = field(default_factory=list)  # the sum of B_np
    seconds: float = 0.0
    core_s: float = 0.0
    gib_s: float = 0.0
    short_s: float = 0.0  # concurrency that was wanted and not ready, times seconds
    decided_s: list[float] = field(default_factory=list)
    _now: int = field(default=0, repr=False)  # the target
    _open: list[tuple[float, int, int]] = field(default_factory=list, repr=False)  # (begun, target, which)

    def aim(self, now_s: float, target: int, ready: int) -> None:
        """Set the target."""
        rises, self._now = target > self._now, target
        for _, _, which in [o for o in self._open if o[1] > target]:
            self.cut_short += 1
            self._close(which, now_s)
        if rises:
            self.scaling_s.append(0.0)
            self._open.append((now_s, target, len(self.scaling_s) - 1))
        self.became(now_s, ready)

    def became(self, now_s: float, ready: int) -> None:
        """Set the ready concurrency."""
        for _, _, which in [o for o in self._open if o[1] <= ready]:
            self._close(which, now_s)

    def _close(self, which: int, now_s: float) -> None:
        (begun_s,) = [begun_s for begun_s, _, number in self._open if number == which]
        self.scaling_s[which] = round(now_s - begun_s, 6)
        self._open = [o for o in self._open if o[2] != which]

    def passed(self, seconds: float, ready: int, cpu_millicores: int, memory_bytes: int) -> None:
        """Account for a stretch of time without changes."""
        self.seconds += seconds
        self.core_s += seconds * cpu_millicores / 1000
        self.gib_s += seconds * memory_bytes / GIB
        self.short_s += seconds * max(self._now - ready, 0)

    def sample(self, now_s: float, ready: int, holdings: list[Holding]) -> None:
        self.at_s.append(round(now_s, 3))
        self.target.append(self._now)
        self.ready.append(ready)
        self.replicas.append(len(holdings))
        self.concurrency.append(sum(h.size.concurrency for h in holdings))
        self.price.append(round(sum(h.price for h in holdings), 6))

    def end(self, now_s: float) -> None:
        for _, _, which in list(self._open):
            self.cut_short += 1
            self._close(which, now_s)

    @property
    def resource_cost(self) -> float:
        """B_f of eq. (10): the price of one unit of concurrency, averaged over the samples that have
        containers."""
        each = [p / c for p, c in zip(self.price, self.concurrency, strict=True) if c]
        return sum(each) / len(each) if each else 0.0

    @property
    def mean_scaling_s(self) -> float:
        return sum(self.scaling_s) / len(self.scaling_s) if self.scaling_s else 0.0
