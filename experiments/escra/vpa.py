"""The Vertical Pod Autoscaler's own recommender, at its best, on cgroups.

Its recommender is a process of its own (kwok/binaries/vpa-recommender). It has more than a cluster gives it:
a sample and a recommendation each second instead of each minute, a profile as its history, and limits that
are changed in place at once, where its updater waits until a request is far off, then resizes or evicts. As
in a cluster it recommends requests, and keeps the ratio of limit to request: 1.5 of CPU, as the static arms
have, 1 of memory.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.escra.limiters import History, Sample, SampledLimits
from kwok.binaries import Binaries
from kwok.errors import LabError
from limit_allocator.allocation.model import PERIOD_US
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy

__all__ = ["Recommender", "VpaLimits"]

_EVERY_S = 1.0
_MIB = 1 << 20
_LIMIT_OVER_REQUEST = 1.5  # of CPU
_END_S = 10.0


class Recommender:
    """The recommender's process. `half_life_s`: of a sample's weight; its own default is a day."""

    def __init__(self, half_life_s: float) -> None:
        self._process = subprocess.Popen(
            [Binaries().path("vpa-recommender"), f"-half-life={half_life_s:g}s"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._seconds = 0

    def ask(self, containers: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        """Add a second's samples, and get the targets."""
        self._seconds += 1
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is not None and stdout is not None:
            stdin.write(json.dumps({"at_s": self._seconds, "containers": containers}) + "\n")
            stdin.flush()
            if line := stdout.readline():
                return dict(json.loads(line))
        raise LabError("the Vertical Pod Autoscaler's recommender ended")

    def close(self) -> None:
        self._process.communicate(timeout=_END_S)


class VpaLimits(SampledLimits):
    def __init__(self, history: Sequence[History], half_life_s: float) -> None:
        super().__init__(_EVERY_S, history)
        self._half_life_s = half_life_s

    def start(self, hierarchy: Hierarchy, cgroups: Sequence[ContainerCgroup], directory: Path) -> None:
        self._recommender = Recommender(self._half_life_s)
        super().start(hierarchy, cgroups, directory)

    def stop(self) -> Mapping[str, Any]:
        try:
            return super().stop()
        finally:
            self._recommender.close()

    def wanted(self, samples: Sequence[Sequence[Sample]]) -> Sequence[tuple[float, float] | None]:
        said = self._recommender.ask({str(at): _second(of) for at, of in enumerate(samples) if of})
        return [_limits(said[str(at)]) if str(at) in said else None for at in range(len(samples))]


def _second(samples: Sequence[Sample]) -> dict[str, float]:
    """As metrics have it: the mean of CPU, and memory at one moment; here the highest one."""
    return {
        "cores": float(np.nan_to_num(np.mean([sample.used_us for sample in samples]))) / PERIOD_US,
        "mib": float(np.nan_to_num(np.max([sample.held_bytes for sample in samples]))) / _MIB,
        "killed_at_mib": max(sample.killed_at_bytes for sample in samples) / _MIB,
    }


def _limits(target: Mapping[str, float]) -> tuple[float, float]:
    return _LIMIT_OVER_REQUEST * target["cores"] * PERIOD_US, target["mib"] * _MIB
