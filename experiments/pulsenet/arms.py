"""The systems that are compared, and how each is set up. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from burst_plane.burst_function import Variant
from burst_plane.preparing import Sizing
from experiments.pulsenet.baselines import BIN_S, Asynchronous, Forecaster, Predicted, Synchronous, WarmPool
from experiments.pulsenet.emergency_track import EmergencyTrack
from experiments.pulsenet.model import Cluster, Creation, Floats, Integers, Outcome, Starts
from experiments.pulsenet.predictors import LinearRegression, Nhits
from experiments.pulsenet.regular_track import RegularTrack, Rules, seconds_before
from experiments.pulsenet.simulation import Emergency, Policy, Simulation, Span
from experiments.pulsenet.trace import MINUTES, Function, draw_memory, draw_requests

__all__ = ["ARMS", "BASELINES", "OURS", "PAPER", "PREDICTORS", "RETENTIONS_S", "Arm", "Scene", "play"]

OURS, PAPER = "pulsenet", "paper"
PREDICTORS: dict[str, Callable[[Floats], Forecaster]] = {
    "linear_regression": LinearRegression,
    "nhits": Nhits,
}
# Each system, best retention first known: `retention_s` is the window or the keepalive.
RETENTIONS_S = (6.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_HOUR_MINUTES = 60
# Dirigent creates in about 0.2 s at the median (paper, section 6.2.2, figure 7), and its control plane is no
# bottleneck; its autoscaler is Knative's.
_DIRIGENT = Creation(alone_s=0.2, at_once=float("inf"), per_s=1e6, cpu_s=0.05)
# The paper restores microVMs in 150 ms (section 6.2.1).
_SNAPSHOT_S = 0.15


@dataclass(frozen=True)
class Arm:
    system: str
    retention_s: float = 60.0  # window of an autoscaler, keepalive of an instance
    target_percentage: float = 70.0  # of an instance's concurrency that autoscalers aim at
    threshold_percentile: float = 50.0
    spares: int = 1
    snapshot_s: float | None = None
    sizing: Sizing = field(default_factory=Sizing)
    most_instances: int = 10

    @property
    def label(self) -> str:
        return f"{self.system} {self.retention_s:g} s"


_ALL = (
    Arm(OURS),
    Arm(PAPER, snapshot_s=_SNAPSHOT_S),
    Arm("asynchronous"),
    Arm("synchronous", retention_s=600.0),
    Arm("linear_regression"),
    Arm("nhits"),
    Arm("warm_pool", retention_s=600.0),
    Arm("dirigent"),
)
ARMS = {arm.system: arm for arm in _ALL}
BASELINES = tuple(name for name in ARMS if name != OURS)


@dataclass(frozen=True)
class Scene:
    """Where and when a run plays."""

    functions: tuple[Function, ...]
    span: Span = field(default_factory=Span)
    cluster: Cluster = field(default_factory=Cluster)
    creation: Creation = field(default_factory=Creation)
    starts: Starts = field(default_factory=Starts)

    @property
    def minutes(self) -> int:
        return int(np.ceil(self.span.end_s / 60))

    def first_minute(self, seed: int) -> int:
        """After an hour of history."""
        known = max(int(np.flatnonzero(sum(f.counts for f in self.functions))[-1]) + 1, 1)
        last = min(known, MINUTES) - self.minutes
        first = min(_HOUR_MINUTES, last)
        return int(np.random.default_rng((seed, 3)).integers(first, last + 1))


def play(
    arm: Arm, scene: Scene, seed: int, timed: Callable[[Forecaster], Forecaster] = lambda f: f
) -> Outcome:
    """`timed` may wrap a predictor, to see how long it takes."""
    first = scene.first_minute(seed)
    requests = draw_requests(scene.functions, first, scene.minutes, seed).between(0.0, scene.span.end_s)
    before_minutes = min(first, _HOUR_MINUTES)
    before = draw_requests(scene.functions, first - before_minutes, before_minutes, seed)
    creation = scene.creation
    policy: Policy
    emergency: Emergency | None = None
    match arm.system:
        case "pulsenet" | "paper":
            variant = Variant.PAPER if arm.system == PAPER else Variant.BEST
            rules = Rules(
                arm.retention_s, arm.threshold_percentile, arm.target_percentage, arm.most_instances, variant
            )
            history = seconds_before(
                before.at_s, before.function, len(scene.functions), before_minutes * 60.0
            )
            policy = regular = RegularTrack(rules, history)
            sizing = arm.sizing if arm.snapshot_s is None else None
            emergency = EmergencyTrack(rules, scene.starts, regular, sizing, arm.snapshot_s)
        case "synchronous":
            policy = Synchronous(arm.retention_s)
        case "warm_pool":
            policy = WarmPool(arm.retention_s, arm.spares)
        case "linear_regression" | "nhits":
            series = _series(
                before.at_s, before.duration_s, before.function, len(scene.functions), before_minutes
            )
            forecaster = timed(PREDICTORS[arm.system](series))
            policy = Predicted(forecaster, series, arm.retention_s, arm.target_percentage / 100)
        case "asynchronous" | "dirigent":
            policy = Asynchronous(arm.retention_s, arm.target_percentage / 100)
            if arm.system == "dirigent":
                creation = replace(_DIRIGENT, alone_s=min(_DIRIGENT.alone_s, creation.alone_s))
        case _:
            raise ValueError(f"no system {arm.system!r}")
    memory = draw_memory(scene.functions, seed)
    return Simulation(requests, memory, scene.span, scene.cluster, creation, policy, emergency).run()


def _series(at_s: Floats, duration_s: Floats, function: Integers, functions: int, minutes: int) -> Floats:
    """Requests at once in the mean of each bin, had each found an instance."""
    bins = int(minutes * 60 / BIN_S)
    edges = np.arange(bins + 1) * BIN_S
    found = np.zeros((functions, bins))
    for index in range(functions):
        own = function == index
        begin, end = at_s[own], at_s[own] + duration_s[own]
        # Time used before each edge, summed over requests.
        used = np.array([(np.minimum(end, edge) - np.minimum(begin, edge)).sum() for edge in edges])
        found[index] = np.diff(used) / BIN_S
    return found
