"""KneeScale as a Scaler of the simulated comparison."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.kneescale import traffic_simulation as simulation
from experiments.kneescale.plan import SAMPLING_S, Load
from experiments.kneescale.searches import SEARCHES
from experiments.kneescale.simulated import Scaler, baseline, merged
from hpa_replacement.decision.decide import decide
from hpa_replacement.decision.model import NoSample, Sample, State
from hpa_replacement.decision.policy import AtEnd, Budget, Policy, Search
from kwok.traffic.function import Function
from kwok.traffic.functions import CLUSTER

__all__ = ["KneeScale", "scaler_of"]

# Ticks of 6 s: the controller's windows are 1, 0.8 or 0.6 of an interval (observe/observation.py).
_TICKS = 5
_WINDOWS = (5, 4, 3)


class KneeScale:
    """One function's policy. It decides every sampling interval, on the clean part of the interval."""

    tick_s = SAMPLING_S / _TICKS
    first = 1

    def __init__(self, search: Search, capacity: int, load: Load, creation_s: float) -> None:
        budget = Budget(load.budget, load.duration_s, AtEnd.STOP)
        self._policy = Policy(capacity, interval_s=SAMPLING_S, search=search, budget=budget)
        # The controller decides once before any request: the window of the budget begins.
        self._state = decide(self._policy, State(), NoSample("no requests yet"), 0.0).action.state
        self._creation_s, self._unchanged_since_s, self._latency_s = creation_s, -SAMPLING_S, 0.0
        self.samples: list[int] = []
        self.knees: list[int] = []
        self.reasons: list[tuple[str, ...]] = []

    def wanted(self, ticks: Sequence[simulation.Sample], replicas: int) -> int:
        if len(ticks) % _TICKS:
            return replicas
        now_s = ticks[-1].at_s
        decision = decide(self._policy, self._state, self._sample(ticks, replicas), now_s)
        searched = self._state.search
        if searched is not None and decision.action.state.search is None:
            self.samples.append(len(searched.points) + 1)  # the last one ended it
            self.knees += [k.replicas for k in decision.action.state.known if not k.inferred][-1:]
        self._state = decision.action.state
        self.reasons.append(decision.reasons)
        wanted = replicas if decision.action.replicas is None else decision.action.replicas
        if wanted != replicas:
            self._unchanged_since_s = now_s + (self._creation_s if wanted > replicas else 0.0)
        return wanted

    def _sample(self, ticks: Sequence[simulation.Sample], replicas: int) -> Sample | NoSample:
        now_s = ticks[-1].at_s
        # As in the controller: first let the requests end that wait in the earlier pods.
        unchanged_s = now_s - self._unchanged_since_s - 2 * self._latency_s
        length = next((n for n in _WINDOWS if n * self.tick_s <= unchanged_s + 1e-6), _TICKS)
        seen = merged(ticks[-length:])
        if seen.throughput_per_s <= 0 and seen.errors_per_s <= 0:
            return NoSample("no requests")
        self._latency_s = seen.latency_s or self._latency_s
        try:
            return Sample(
                replicas=replicas,
                ready_replicas=seen.replicas_ready,
                ready_since_s=now_s - unchanged_s,
                window_start_s=now_s - length * self.tick_s,
                window_end_s=now_s,
                throughput_per_s=seen.throughput_per_s,
                errors_per_s=seen.errors_per_s,
                latency_s=seen.latency_s,
                cpu_utilisation=seen.cpu_utilisation,
                capacity=self._policy.max_replicas,
            )
        except ValueError as error:
            return NoSample(str(error))


def scaler_of(arm: str, function: Function, load: Load) -> Scaler:
    if arm not in SEARCHES:
        return baseline(arm, function, load)
    capacity = CLUSTER.capacity(function.cpu_cores)
    return KneeScale(SEARCHES[arm], capacity, load, simulation.Settings().creation_s)
