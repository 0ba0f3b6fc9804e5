"""Which runs are played, and the file of those that are finished: one line a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from experiments.escra.applications import APPLICATIONS
from experiments.escra.arms import ARMS, AUTOPILOT, PROFILE, Arm, changed
from experiments.escra.loads import LOADS
from experiments.escra.serverless.model import Serverless
from experiments.seeds import REPORTED, SWEEP

__all__ = ["Plan", "Run", "add_finished", "read_finished"]

_QUICK_ARMS = (
    "static_1", "static_1_cpu", "static_1_5", "no_limit", "burst", AUTOPILOT, "autopilot_burst", "ours_1",
    "ours_1_5",
)  # fmt: skip
_MIB = 1 << 20
_START_S, _STEPPING_RUN_S, _SCALE_S, _RESIZE_S = 3.0, 32.0, 25.0, 180.0


@dataclass(frozen=True, slots=True)
class Run:
    """One application under one load and one arm."""

    application: str
    load: str
    seed: int
    arm: Arm
    parameter: str = ""  # of a sweep
    measured_s: float = 25.0

    @property
    def key(self) -> str:
        return "/".join([self.application, self.load, str(self.seed), self.arm.name, self.parameter])


@dataclass(frozen=True)
class Plan:
    seeds: Sequence[int] = REPORTED[:2]
    loads: Sequence[str] = LOADS
    applications: Sequence[str] = tuple(APPLICATIONS)
    arms: Sequence[str] = tuple(ARMS)
    measured_s: float = 22.0
    warm_up_s: float = 6.0  # load runs, nothing is measured
    # Peaks are taken over windows of this length. Tools that people profile with average over seconds
    # (section VI-C), so a second is the paper's case.
    profile_window_s: float = 1.0
    reaction_containers: int = 200
    reaction_s: float = 60.0
    stepping: Sequence[str] = ("ours_1_5", "paper", "published", AUTOPILOT)  # arms
    serverless: Serverless | None = field(default_factory=Serverless)
    scale_containers: Sequence[int] = (5_000, 10_000)  # of a swarm over gRPC
    stock_resize: bool = False  # needs a real node
    sweep: bool = False
    data: Path | None = None  # of another Azure sample

    @classmethod
    def quick(cls) -> Plan:
        """Within 15 minutes."""
        return cls(
            REPORTED[:1], ("exponential", "burst"), arms=_QUICK_ARMS, measured_s=10.0, warm_up_s=4.0,
            reaction_s=30.0, stepping=("ours_1_5", AUTOPILOT), scale_containers=(5_000,),
            serverless=Serverless(image_s=16.0, jobs=1, tasks=60, paper=False),
        )  # fmt: skip

    @property
    def tag(self) -> str:
        """Finished runs of another plan are not those of this one."""
        return f"{self.warm_up_s:g}+{self.measured_s:g}s/{self.profile_window_s:g}s/{self.data or ''}"

    @property
    def minutes(self) -> float:
        """About: starting, registration and the rest of slow answers take some seconds a run."""
        runs = [*self.profiles(), *self.runs()]
        applications_s = sum(self.warm_up_s + run.measured_s + _START_S for run in runs)
        rest_s = self.reaction_s + _STEPPING_RUN_S * len(self.stepping)
        rest_s += _RESIZE_S * self.stock_resize + _SCALE_S * len(self.scale_containers)
        if self.serverless:
            run_s = self.serverless.run_s
            rest_s += sum(
                run_s[run.function.name] for seed in self.seeds for run in self.serverless.runs(seed)
            )
        return (applications_s + rest_s) / 60

    def profiles(self) -> Iterator[Run]:
        """Each application under each load with other draws than the measured ones, without limits."""
        for application in self.applications:
            for load in self.loads:
                for seed in self.seeds:
                    yield Run(application, load, -seed, PROFILE, measured_s=self.measured_s)

    def runs(self) -> Iterator[Run]:
        """Arms alternate: all arms of a load after each other, beginning with another one each time."""
        for seed in self.seeds:
            for a, application in enumerate(self.applications):
                for b, load in enumerate(self.loads):
                    first = (seed + 3 * a + 5 * b) % len(self.arms)
                    for name in (*self.arms[first:], *self.arms[:first]):
                        yield Run(application, load, seed, ARMS[name], measured_s=self.measured_s)
        if self.sweep:
            yield from self._sweep()

    def _sweep(self) -> Iterator[Run]:
        seed, (application, *_) = SWEEP[0], self.applications
        for parameter, arm in _variations():
            measured_s = max(self.measured_s, 2.2 * (arm.autopilot_every_s or 0.0))
            for load in ("exponential", "burst"):
                if load in self.loads:
                    yield Run(application, load, seed, arm, parameter, measured_s)


def _variations() -> Iterator[tuple[str, Arm]]:
    """`best` has neither Upsilon nor kappa: those are swept in `paper`."""
    for period_s in (0.05, 0.1, 0.15, 0.2):
        yield f"report_period_s={period_s:g}", replace(ARMS["ours_1_5"], report_period_s=period_s)
    for arm, parameter, values in (
        ("paper", "upsilon", (10.0, 20.0, 35.0)),
        ("paper", "kappa", (0.4, 0.8, 1.0)),
        ("paper", "gamma", (0.1, 0.2, 0.4)),
        ("ours_1_5", "gamma", (0.1, 0.2, 0.4)),
        ("ours_1_5", "delta_bytes", (25 * _MIB, 50 * _MIB, 100 * _MIB)),
        ("ours_1_5", "sigma", (0.1, 0.2, 0.4)),
    ):
        for value in values:
            yield f"{parameter}={value:g}", changed(arm, **{parameter: value})
    for every_s in (1.0, 10.0, 30.0, 60.0, 300.0):
        yield f"every_s={every_s:g}", replace(ARMS[AUTOPILOT], autopilot_every_s=every_s)
    for half_life_s in (10.0, 60.0, 86_400.0):
        yield f"half_life_s={half_life_s:g}", replace(ARMS["vpa"], vpa_half_life_s=half_life_s)


def read_finished(partial: Path | None) -> dict[str, Any]:
    if partial is None or not partial.exists():
        return {}
    finished = {}
    for line in partial.read_text().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:  # cut off: played again
            continue
        finished[entry["key"]] = entry["found"]
    return finished


def add_finished(partial: Path | None, key: str, found: Any) -> None:
    if partial is not None:
        partial.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("a") as file:
            file.write(json.dumps({"key": key, "found": found}) + "\n")
