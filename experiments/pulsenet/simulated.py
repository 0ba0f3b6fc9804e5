"""All systems in virtual time: the comparison, and the parameters that the paper varies."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from experiments.escra.plan import add_finished, read_finished
from experiments.pulsenet.arms import ARMS, OURS, RETENTIONS_S, Arm, Scene, play
from experiments.pulsenet.baselines import Forecaster
from experiments.pulsenet.figures import Summary, compared, summary, table
from experiments.pulsenet.model import Cluster, Creation, Floats, Starts
from experiments.pulsenet.simulation import Span
from experiments.pulsenet.trace import read, shifted
from experiments.seeds import REPORTED, SWEEP

__all__ = ["Plan", "run"]

Json = dict[str, Any]
Say = Callable[[str], None]
_KEEPALIVES_S = (2.0, 6.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0)  # fig. 5a
_THRESHOLDS = (25.0, 50.0, 75.0, 90.0, 99.0)  # fig. 5b
_DELAYS_S = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # fig. 8
_START_S = (0.003, 0.011, 0.041, 0.15, 0.5, 1.0)  # ours: what an emergency start may take
_DELAYED = (OURS, "asynchronous", "synchronous")
_LARGE = Cluster(nodes=50)  # section 6.4.2
_COPIES = 4  # of the sample, on these


@dataclass(frozen=True)
class Plan:
    """Which runs. Each is played once and kept, also if several figures show it."""

    trace: Path | None = None
    seeds: Sequence[int] = REPORTED[:20]
    sweep_seeds: Sequence[int] = SWEEP[:2]
    arms: Sequence[str] = tuple(ARMS)
    keepalives_s: Sequence[float] = _KEEPALIVES_S
    thresholds: Sequence[float] = _THRESHOLDS
    retentions_s: Sequence[float] = RETENTIONS_S
    delays_s: Sequence[float] = _DELAYS_S
    starts_s: Sequence[float] = _START_S
    large: bool = True
    span: Span = field(default_factory=Span)
    starts: Starts = field(default_factory=Starts)

    @classmethod
    def quick(cls, trace: Path | None = None) -> Plan:
        return cls(
            trace, REPORTED[:2], SWEEP[:1], keepalives_s=(6.0, 60.0, 600.0), thresholds=(25.0, 50.0, 99.0),
            retentions_s=(6.0, 60.0, 600.0), delays_s=(0.1, 3.0, 100.0), starts_s=(0.011, 0.15), large=False,
            span=Span(600.0, 1200.0),
        )  # fmt: skip

    def without_sweeps(self) -> Plan:
        return replace(
            self, keepalives_s=(), thresholds=(), retentions_s=(), delays_s=(), starts_s=(), large=False
        )  # fmt: skip

    @property
    def tag(self) -> str:
        where = self.trace.name if self.trace else "extract"
        return f"{where}/{self.span.warm_up_s:g}+{self.span.measured_s:g}/{self.starts.source}"


@dataclass(frozen=True)
class _Job:
    arm: Arm
    seed: int
    delay_s: float | None = None  # of creations, whatever else is being created (KWOK, fig. 8)
    start_s: float | None = None  # of emergency instances
    large: bool = False

    @property
    def key(self) -> str:
        fields = asdict(self)
        if self.arm.system != OURS:
            del fields["arm"]["sizing"]  # a pool of ours does not concern it
        return json.dumps(fields, sort_keys=True)


def run(plan: Plan, partial: Path | None, say: Say) -> Json:
    """Play what is not in `partial` yet, and append it there."""
    finished = read_finished(partial)
    jobs = dict.fromkeys(job for part in _parts(plan).values() for group in part.values() for job in group)
    missing = [job for job in jobs if f"{plan.tag} {job.key}" not in finished]
    say(f"{len(jobs)} runs, {len(missing)} of them to be played")
    with ProcessPoolExecutor(initializer=_begin, initargs=(plan,)) as pool:
        for number, (job, found) in enumerate(zip(missing, pool.map(_play, missing), strict=True), start=1):
            finished[f"{plan.tag} {job.key}"] = found
            add_finished(partial, f"{plan.tag} {job.key}", found)
            if number % 10 == 0 or number == len(missing):
                say(f"{number} of {len(missing)}: {job.arm.label}")

    def of(part: str) -> dict[str, list[Summary]]:
        return {
            name: [Summary.of_json(finished[f"{plan.tag} {job.key}"]) for job in group]
            for name, group in _parts(plan)[part].items()
        }

    main = of("main")
    found = compared(main, OURS) | {
        "simulated": True,
        "functions": len(main[OURS][0].p99_slowdown),
        "trace": plan.trace.name if plan.trace else "extract",
        "seeds": list(plan.seeds),
        "starts_source": plan.starts.source,
        "must": _must(compared(main, OURS)),
    }
    for part in ("keepalive", "threshold", "retention", "creation_delay", "start", "large"):
        found[part] = {name: table(runs) for name, runs in of(part).items()}
    return found


def _must(found: Mapping[str, Any]) -> dict[str, bool]:
    """What issue 16 asks for at least."""
    ahead = {
        f"ahead of {name} in {key}": found[key][name]["low"] > 1
        for name in ("asynchronous", "synchronous")
        for key in ("slowdown_ratio", "cost_ratio")
        if name in found[key]
    }
    return ahead | {
        "regular_share at least 0.98": found["regular_share"] >= 0.98,
        "emergency CPU at most 10 %": found["emergency_cpu_share"] <= 0.1,
    }


def _parts(plan: Plan) -> dict[str, dict[str, list[_Job]]]:
    """Figure -> what is varied -> its runs."""
    some, ours = plan.sweep_seeds, ARMS[OURS]
    large = ("pulsenet", "asynchronous", "synchronous") if plan.large else ()
    return {
        "main": {name: [_Job(ARMS[name], seed) for seed in plan.seeds] for name in plan.arms},
        "keepalive": {
            f"{s:g}": [_Job(replace(ours, retention_s=s), seed) for seed in some] for s in plan.keepalives_s
        },
        "threshold": {
            f"{p:g}": [_Job(replace(ours, threshold_percentile=p), seed) for seed in some]
            for p in plan.thresholds
        },
        "retention": {
            f"{name} {s:g}": [_Job(replace(ARMS[name], retention_s=s), seed) for seed in some]
            for name in plan.arms
            for s in plan.retentions_s
        },
        "creation_delay": {
            f"{name} {s:g}": [_Job(ARMS[name], seed, delay_s=s) for seed in some]
            for name in _DELAYED
            for s in plan.delays_s
            if name in plan.arms
        },
        "start": {f"{s:g}": [_Job(ours, seed, start_s=s) for seed in some] for s in plan.starts_s},
        "large": {name: [_Job(ARMS[name], some[0], large=True)] for name in large if name in plan.arms},
    }  # fmt: skip


_scenes: dict[bool, Scene] = {}


def _begin(plan: Plan) -> None:
    """In each worker."""
    functions = tuple(read(plan.trace))
    _scenes[False] = Scene(functions, plan.span, starts=plan.starts)
    _scenes[True] = replace(_scenes[False], functions=tuple(shifted(functions, _COPIES)), cluster=_LARGE)


def _play(job: _Job) -> Json:
    scene = _scenes[job.large]
    if job.delay_s is not None:
        scene = replace(scene, creation=Creation(alone_s=job.delay_s, at_once=float("inf"), per_s=1e6))
    if job.start_s is not None:
        same = replace(
            scene.starts, frozen_s=job.start_s, created_s=job.start_s, image_s=job.start_s, crowd=0.0
        )
        scene = replace(scene, starts=same)
    clocks: list[_Timed] = []

    def timed(forecaster: Forecaster) -> Forecaster:
        clocks.append(_Timed(forecaster))
        return clocks[-1]

    outcome = play(job.arm, scene, job.seed, timed)
    each_s = next((clock.cpu_s / max(clock.calls, 1) for clock in clocks), 0.0)
    return summary(outcome, scene.creation, scene.starts, each_s).as_json()


class _Timed:
    """A predictor that says how much CPU time it took; training is not counted, as in the paper."""

    def __init__(self, forecaster: Forecaster) -> None:
        self._forecaster, self.lags = forecaster, forecaster.lags
        self.cpu_s, self.calls = 0.0, 0

    def predict(self, series: Floats) -> Floats:
        began_s = time.process_time()
        found = self._forecaster.predict(series)
        self.cpu_s, self.calls = self.cpu_s + time.process_time() - began_s, self.calls + 1
        return found
