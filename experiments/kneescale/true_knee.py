"""The knee that a search should find: an exhaustive sweep in simulation, smoothed, then Kneedle.

KneeScale II-A: a smoothing spline through (replicas, score), then Kneedle (concave, increasing, S = 1).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from kneed import KneeLocator
from scipy.interpolate import make_smoothing_spline

from experiments.kneescale.traffic_simulation import Clients, Settings, simulate
from kwok.errors import TrafficError
from kwok.traffic.function import Function
from kwok.traffic.functions import CLUSTER

__all__ = ["Steady", "hpa_replicas", "measure", "sweep", "true_knee", "true_knees"]


@dataclass(frozen=True)
class Steady:
    """The long-run results of a fixed number of replicas."""

    replicas: int
    throughput_per_s: float
    latency_s: float  # infinite when nothing was answered
    errors_per_s: float
    cpu_utilisation: float

    @property
    def score(self) -> float:
        """KneeScale eq. 1."""
        return self.throughput_per_s / self.latency_s


def measure(
    function: Function,
    clients: int,
    replicas: int,
    *,
    duration_s: float = 3600.0,
    warm_up_s: float = 120.0,
    seed: int = 1,
    settings: Settings = Settings(),  # noqa: B008 - frozen
) -> Steady:
    """Means over `duration_s`, after a warm-up that covers the cold starts."""
    everything = simulate(
        function,
        Clients.constant(clients),
        replicas,
        warm_up_s + duration_s,
        seed=seed + 1_000_003 * replicas,  # each count draws for itself: noise stays independent
        settings=settings,
    )
    samples = [sample for sample in everything if sample.at_s > warm_up_s]
    if not samples:
        raise TrafficError(f"duration_s: {duration_s!r} holds no interval of {settings.interval_s} s")
    answered = sum(sample.throughput_per_s for sample in samples)
    latency_s = sum(s.throughput_per_s * s.latency_s for s in samples if s.latency_s is not None)
    return Steady(
        replicas,
        throughput_per_s=answered / len(samples),
        latency_s=latency_s / answered if answered else float("inf"),
        errors_per_s=sum(sample.errors_per_s for sample in samples) / len(samples),
        cpu_utilisation=sum(sample.cpu_utilisation or 0.0 for sample in samples) / len(samples),
    )


def sweep(
    function: Function,
    clients: int,
    replicas: Iterable[int],
    *,
    duration_s: float = 3600.0,
    seed: int = 1,
    settings: Settings = Settings(),  # noqa: B008 - frozen
    processes: int = 1,
) -> list[Steady]:
    """Measure every replica count."""
    one = partial(measure, function, clients, duration_s=duration_s, seed=seed, settings=settings)
    if processes == 1:
        return [one(count) for count in replicas]
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(one, replicas))


def true_knee(points: Sequence[Steady]) -> int | None:
    """The knee of a sweep, or None if its curve has none."""
    ordered = sorted(points, key=lambda point: point.replicas)
    if len(ordered) < 5:
        raise TrafficError(f"a knee needs a sweep of at least 5 counts, not {len(ordered)}")
    counts = np.array([point.replicas for point in ordered], dtype=float)
    scores = np.array([point.score for point in ordered])
    if np.ptp(scores) == 0:
        return None
    smooth = make_smoothing_spline(counts, scores)(counts)
    # Kneedle takes each local maximum of the difference curve that is followed by a drop as a candidate.
    # With few replicas the score grows as their square, so the curve starts below its chord and its first
    # point is one; `online` lists them all, and the highest is the knee meant.
    kneedle = KneeLocator(counts, smooth, S=1.0, curve="concave", direction="increasing", online=True)
    above_chord = dict(zip(counts, kneedle.y_difference, strict=True))
    return round(float(max(kneedle.all_knees, key=above_chord.__getitem__))) if kneedle.all_knees else None


def true_knees(functions: Iterable[Function], clients: int) -> dict[str, int | None]:
    """The knees of these functions in the lab's cluster, from a coarse sweep: one or two replicas off."""
    found = {}
    for function in functions:
        most = CLUSTER.capacity(function.cpu_cores)
        counts = sorted({round(float(count)) for count in np.linspace(1, most, 24)})
        points = sweep(function, clients, counts, duration_s=600.0, processes=os.cpu_count() or 1)
        found[function.name] = true_knee(points)
    return found


def hpa_replicas(points: Sequence[Steady], target: float) -> int:
    """Where an HPA with this CPU target settles: the fewest replicas at or below it, else the most.

    Utilisation falls with replicas. The HPA asks for ceil(replicas * utilisation / target) (eq. 3) and
    ignores changes within its tolerance of 10 %, which this does not model.
    """
    ordered = sorted(points, key=lambda point: point.replicas)
    return next((p.replicas for p in ordered if p.cpu_utilisation <= target), ordered[-1].replicas)
