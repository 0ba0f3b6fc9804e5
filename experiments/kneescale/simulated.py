"""The comparison in virtual time: the lab's functions, clients and budgets, minutes instead of hours.

Each arm is a Scaler, called every few seconds as its loop would be. The command line provides the Scalers
of the searches. The HPA is its formula, not the stock controller.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Protocol

from experiments.client_trace import ClientTrace
from experiments.kneescale.openfaas_rule import OpenFaasRule
from experiments.kneescale.plan import CONSTANT, SAMPLING_S, Load, Part, Plan, Played
from experiments.kneescale.track import Track
from experiments.kneescale.traffic_simulation import Clients, Sample, Settings, simulate
from kwok.traffic.function import Function
from kwok.traffic.functions import CLUSTER, FUNCTIONS, variants

__all__ = [
    "Constant", "Hpa", "OpenFaas", "Scaler", "ScalerOf", "baseline", "functions_of", "merged", "play", "run",
]  # fmt: skip


class Scaler(Protocol):
    @property
    def tick_s(self) -> float:
        """How often it is called; divides the sampling interval."""

    @property
    def first(self) -> int:
        """Replicas at the start."""

    @property
    def samples(self) -> Sequence[int]:
        """The number of samples of each finished search."""

    @property
    def knees(self) -> Sequence[int]:
        """The knees that searches found."""

    def wanted(self, ticks: Sequence[Sample], replicas: int) -> int:
        """From all that was seen, the newest last, and the replicas wanted so far."""


ScalerOf = Callable[[str, Function, Load], Scaler]  # by arm


@dataclass
class Hpa:
    """The HPA on CPU utilisation with its defaults (autoscaling/v2, kube-controller-manager 1.36)."""

    target: float
    most: int
    tick_s: float = 15.0  # --horizontal-pod-autoscaler-sync-period
    first: int = 1
    samples: Sequence[int] = ()
    knees: Sequence[int] = ()
    _tolerance: float = 0.1
    # As many recommendations as --horizontal-pod-autoscaler-downscale-stabilization (5 minutes) holds.
    _recommended: deque[int] = field(default_factory=lambda: deque(maxlen=20))

    def wanted(self, ticks: Sequence[Sample], replicas: int) -> int:
        seen = ticks[-1]
        if seen.cpu_utilisation is None:
            return replicas
        ratio = seen.cpu_utilisation / self.target
        desired = replicas
        if abs(ratio - 1) > self._tolerance:
            desired = math.ceil(seen.replicas_ready * ratio - 1e-9)
        desired = max(1, min(desired, self.most))
        self._recommended.append(desired)
        if desired > replicas:
            return min(desired, max(2 * replicas, replicas + 4))
        return min(replicas, max(self._recommended))


@dataclass
class OpenFaas:
    rule: OpenFaasRule
    tick_s: float = 2.5
    samples: Sequence[int] = ()
    knees: Sequence[int] = ()

    @property
    def first(self) -> int:
        return self.rule.least

    def wanted(self, ticks: Sequence[Sample], replicas: int) -> int:
        return self.rule.replicas(ticks[-1].at_s, ticks[-1].throughput_per_s, replicas)


@dataclass
class Constant:
    """Never scales."""

    first: int
    tick_s: float = SAMPLING_S
    samples: Sequence[int] = ()
    knees: Sequence[int] = ()

    def wanted(self, _: Sequence[Sample], replicas: int) -> int:
        return replicas


def baseline(arm: str, function: Function, load: Load) -> Scaler:
    most = CLUSTER.capacity(function.cpu_cores)
    if arm == "openfaas":
        return OpenFaas(OpenFaasRule(most))
    if arm == CONSTANT:
        return Constant(load.constant(most))
    return Hpa(int(arm.removeprefix("hpa")) / 100, most)


def functions_of(grid: bool) -> dict[str, Function]:
    """The five functions; with `grid` also their variants."""
    if not grid:
        return dict(FUNCTIONS)
    return {
        name: one
        for function in FUNCTIONS.values()
        for name, one in ({function.name: function} | variants(function)).items()
    }


def run(
    plan: Plan, functions: Mapping[str, Function], scaler_of: ScalerOf, say: Callable[[str], None]
) -> Played:
    """Play everything on all cores."""
    jobs = [
        (name, part, seed, arm, function)
        for part, seed, name in plan.rounds()
        for arm in part.arms
        for function in functions
    ]
    played: Played = {}
    one = partial(_job, plan=plan, functions=functions, scaler_of=scaler_of)
    with ProcessPoolExecutor() as pool:
        for done, (job, track) in enumerate(zip(jobs, pool.map(one, jobs), strict=True), 1):
            name, _, _, arm, function = job
            played.setdefault(name, {}).setdefault(arm, {})[function] = asdict(track)
            if done == len(jobs) or jobs[done][0] != name or jobs[done][3] != arm:
                say(f"{name}: {arm}")
    return played


def _job(
    job: tuple[str, Part, int, str, str],
    *,
    plan: Plan,
    functions: Mapping[str, Function],
    scaler_of: ScalerOf,
) -> Track:
    _, part, seed, arm, name = job
    function = functions[name]
    # A variant has the clients of the function it is one of; all arms of a round draw alike.
    original = next(known for known in FUNCTIONS if name.startswith(known))
    trace = part.load.clients(list(FUNCTIONS), plan.data, seed)[original]
    return play(function, trace, part.load, scaler_of(arm, function, part.load), seed=seed)


def play(function: Function, trace: ClientTrace, load: Load, scaler: Scaler, seed: int) -> Track:
    """One function of one arm. It is stopped when it is over budget, as in the lab."""
    track, ticks = Track(), list[Sample]()
    each = round(SAMPLING_S / scaler.tick_s)
    wanted = scaler.first

    def policy(sample: Sample) -> int:
        nonlocal wanted
        ticks.append(sample)
        if len(ticks) % each == 0:
            seen = merged(ticks[-each:])
            track.note(wanted, seen.clients, seen.throughput_per_s, seen.errors_per_s, seen.latency_s)
        if sum(track.replicas) >= load.budget:
            wanted = 0
        elif wanted:
            wanted = scaler.wanted(ticks, wanted)
        return wanted

    simulate(
        function,
        Clients(trace.clients_at),
        wanted,
        load.duration_s,
        seed=seed,
        policy=policy,
        settings=Settings(interval_s=scaler.tick_s),
    )
    track.samples, track.knees = list(scaler.samples), list(scaler.knees)
    return track


def merged(ticks: Sequence[Sample]) -> Sample:
    """Join samples of equal length, one after the other, into one."""
    answered = sum(t.throughput_per_s for t in ticks)
    latency_s = sum(t.throughput_per_s * t.latency_s for t in ticks if t.latency_s is not None)
    cpu = [t.cpu_utilisation for t in ticks if t.cpu_utilisation is not None]
    last = ticks[-1]
    return Sample(
        at_s=last.at_s,
        throughput_per_s=answered / len(ticks),
        errors_per_s=sum(t.errors_per_s for t in ticks) / len(ticks),
        latency_s=latency_s / answered if answered else None,
        cpu_utilisation=sum(cpu) / len(cpu) if cpu else None,
        replicas_ready=last.replicas_ready,
        clients=last.clients,
    )
