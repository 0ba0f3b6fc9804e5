"""The spec of a KneePolicy as values, validated when built: an error names field and value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from hpa_replacement.search.state import NextStep, Variant
from surgekit.errors import UserError

__all__ = ["AtEnd", "Budget", "Policy", "PolicyError", "Search", "Thresholds"]


class PolicyError(UserError, ValueError):
    """A field of the spec has an invalid value."""


def _check(holds: bool, name: str, must: str, value: object) -> None:
    if not holds:
        raise PolicyError(f"{name}: must be {must}, is {value}")


class AtEnd(StrEnum):
    """What happens when the budget is spent."""

    HOLD = "hold"  # keep minReplicas
    STOP = "stop"  # no replicas until the next window, as in the paper (section II-B)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Section III-C; the values are the paper's."""

    throughput_per_s: float = 2.0  # theta_thr: reuse a known knee whose throughput is nearer than this
    errors_per_s: float = 1.0  # theta_err: from here on search up to the whole capacity
    cpu_drop: float = 0.05  # theta_CPU: scale down when utilisation falls by a larger share
    latency_s: float | None = None  # a higher average latency counts as errors do

    def __post_init__(self) -> None:
        positive = [("throughputPerSecond", self.throughput_per_s), ("errorsPerSecond", self.errors_per_s)]
        if self.latency_s is not None:
            positive.append(("latencySeconds", self.latency_s))
        for name, value in positive:
            _check(math.isfinite(value) and value > 0, f"spec.thresholds.{name}", "a number > 0", value)
        _check(0 < self.cpu_drop < 1, "spec.thresholds.cpuDrop", "between 0 and 1", self.cpu_drop)


@dataclass(frozen=True, slots=True)
class Search:
    variant: Variant = Variant.BEST
    exploration_cap: int | None = None  # no search asks for more replicas than this
    next_step: NextStep | None = None  # an experiment's own search; None: the variant's

    def __post_init__(self) -> None:
        cap = self.exploration_cap
        _check(cap is None or cap >= 1, "spec.search.explorationCap", "at least 1", cap)


@dataclass(frozen=True, slots=True)
class Budget:
    """Replica-intervals per window: one replica for one sampling interval counts 1."""

    replica_intervals: float
    window_s: float
    at_end: AtEnd = AtEnd.HOLD

    def __post_init__(self) -> None:
        for name, value in (("replicaIntervals", self.replica_intervals), ("window", self.window_s)):
            _check(math.isfinite(value) and value > 0, f"spec.budget.{name}", "a number > 0", value)


@dataclass(frozen=True, slots=True)
class Policy:
    max_replicas: int
    min_replicas: int = 1
    interval_s: float = 30.0  # section III-A
    thresholds: Thresholds = field(default_factory=Thresholds)
    search: Search = field(default_factory=Search)
    budget: Budget | None = None

    def __post_init__(self) -> None:
        _check(self.min_replicas >= 1, "spec.minReplicas", "at least 1", self.min_replicas)
        _check(
            self.max_replicas >= self.min_replicas,
            "spec.maxReplicas",
            f"at least spec.minReplicas ({self.min_replicas})",
            self.max_replicas,
        )
        _check(
            math.isfinite(self.interval_s) and self.interval_s > 0,
            "spec.samplingInterval", "a number of seconds > 0", self.interval_s,
        )  # fmt: skip
        cap = self.search.exploration_cap
        _check(
            cap is None or cap >= self.min_replicas,
            "spec.search.explorationCap",
            f"at least spec.minReplicas ({self.min_replicas})",
            cap,
        )
        if self.budget is not None:
            _check(
                self.budget.window_s >= self.interval_s,
                "spec.budget.window",
                f"at least spec.samplingInterval ({self.interval_s:g} s)",
                self.budget.window_s,
            )
