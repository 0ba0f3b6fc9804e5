"""Values of a decision: the sample, the state carried between decisions, the action decided on."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hpa_replacement.search.score import concurrency, performance_score
from hpa_replacement.search.state import Point, SearchState

__all__ = ["KnownKnee", "NoSample", "Sample", "Scaling", "Spending", "State"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One function, measured over one window. Nothing is guessed: a missing value makes it a NoSample."""

    replicas: int  # spec.replicas of the target now
    ready_replicas: int
    ready_since_s: float  # since when exactly these have been Ready
    window_start_s: float
    window_end_s: float
    throughput_per_s: float  # successful invocations
    errors_per_s: float
    latency_s: float | None  # average of the successful ones; None: there were none
    cpu_utilisation: float | None  # as a share of the CPU requests; None: not measured
    capacity: int  # eq. (4), including the running ones

    def __post_init__(self) -> None:
        for name in ("replicas", "ready_replicas", "throughput_per_s", "errors_per_s", "capacity"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name}: must be a number >= 0, is {value}")
        for name in ("latency_s", "cpu_utilisation"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name}: must be a number >= 0, is {value}")
        if self.latency_s == 0 or (self.latency_s is None and self.throughput_per_s > 0):
            raise ValueError(
                f"latency_s: must be > 0 with {self.throughput_per_s} invocations/s, is {self.latency_s}"
            )
        if not self.window_start_s < self.window_end_s:
            raise ValueError(
                f"window_end_s: must be after window_start_s {self.window_start_s}, is {self.window_end_s}"
            )

    @property
    def settled(self) -> bool:
        """Whether the replicas that are Ready now served all of the window."""
        return self.ready_since_s <= self.window_start_s

    @property
    def clean(self) -> bool:
        """Whether all replicas of the target served all of the window."""
        return self.settled and self.ready_replicas == self.replicas

    @property
    def idle(self) -> bool:
        return self.throughput_per_s == 0 and self.errors_per_s == 0

    def point(self) -> Point:
        """The point of the curve it measured, at the Ready replicas. Only errors: score 0."""
        if self.latency_s is None:
            return Point(self.ready_replicas, 0.0, 0.0, 0.0)
        return Point(
            self.ready_replicas,
            performance_score(self.throughput_per_s, self.latency_s),
            self.throughput_per_s,
            concurrency(self.throughput_per_s, self.errors_per_s, self.latency_s),
        )


@dataclass(frozen=True, slots=True)
class NoSample:
    reason: str


@dataclass(frozen=True, slots=True)
class KnownKnee:
    """One entry of K in Algorithm 2."""

    throughput_per_s: float
    concurrency: float
    replicas: int
    confirmed: bool = False  # found again after errors had put it in doubt
    inferred: bool = False  # computed from a search at another load


@dataclass(frozen=True, slots=True)
class Spending:
    """Replica-intervals since the window began."""

    window_start_s: float
    spent: float = 0.0


@dataclass(frozen=True, slots=True)
class State:
    """Everything one decision leaves to the next; kept in the status of the KneePolicy."""

    known: tuple[KnownKnee, ...] = ()
    evidence: tuple[Point, ...] = ()  # points of the last search, used by the next one (variant best)
    search: SearchState | None = None
    searched_from: int = 0  # replicas before the search; restored if it is given up
    search_throughput_per_s: float = 0.0  # t_current of Algorithm 2 when the search began
    doubted: bool = False  # the search began because a known knee did not hold
    asked: int | None = None  # replicas the last decision asked for
    asked_at_s: float = 0.0
    running: int = 0  # replicas after the last decision, which the budget charges
    stopped: bool = False  # scaled to 0 because the budget is spent
    troubled: int = 0  # clean samples in a row with errors at a known knee
    cpu_utilisation: float | None = None  # CPU_previous
    loads: tuple[float, ...] = ()  # one per interval, the newest last (variant best)
    spending: Spending | None = None
    decided_at_s: float | None = None
    idle_since_s: float | None = None  # since when samples have had no request; None: unknown, or not idle


@dataclass(frozen=True, slots=True)
class Scaling:
    """The action of a decision: set `replicas` (None: leave the target alone), then keep `state`."""

    replicas: int | None
    state: State
