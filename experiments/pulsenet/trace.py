"""Requests after Azure's trace of 2019, In-Vitro style: as many in each minute as in the trace, at random
within it; run times and memory are drawn from the function's percentiles."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["EXTRACT", "MINUTES", "Function", "Requests", "draw_memory", "draw_requests", "read", "shifted"]

EXTRACT = Path(__file__).parents[1] / "data" / "azure2019_bursts"
MINUTES = 480  # of a sample: columns 480 to 959 are minutes of the day
_FIRST_MINUTE = 480
_DURATIONS = (0, 1, 25, 50, 75, 99, 100)  # percentiles in durations.csv
_MEMORY = (1, 5, 25, 50, 75, 95, 99, 100)  # in memory.csv
_LEAST_S = 0.001  # In-Vitro spins for at least a millisecond; the trace says 0 for less
_MIB = 1 << 20
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Function:
    name: str
    counts: Integers  # requests in each minute
    duration_s: Floats  # at _DURATIONS
    memory_bytes: Floats  # at _MEMORY


@dataclass(frozen=True, eq=False)
class Requests:
    """By arrival. Time 0 is where a run begins."""

    at_s: Floats
    function: Integers
    duration_s: Floats

    def between(self, begin_s: float, end_s: float) -> Requests:
        low, high = np.searchsorted(self.at_s, (begin_s, end_s))
        return Requests(self.at_s[low:high], self.function[low:high], self.duration_s[low:high])


def read(directory: Path | None = None) -> list[Function]:
    """Of a sample, or of the extract in this repository."""
    here = directory or EXTRACT
    durations = _rows(here / "durations.csv")
    memory = _rows(here / "memory.csv")
    return [
        Function(
            name[:12],
            np.array([int(row.get(str(_FIRST_MINUTE + m)) or 0) for m in range(MINUTES)]),
            np.array([float(durations[name][f"percentile_Average_{p}"]) for p in _DURATIONS]) / 1000,
            np.array([float(memory[name][f"AverageAllocatedMb_pct{p}"]) for p in _MEMORY]) * _MIB,
        )
        for name, row in sorted(_rows(here / "invocations.csv").items())
        if name in durations and name in memory
    ]


def shifted(functions: Sequence[Function], copies: int) -> list[Function]:
    """A larger sample: copies play the trace at other times of day, so that they do not burst together."""
    step = MINUTES // copies
    return [
        Function(f"{f.name}-{i}", np.roll(f.counts, i * step), f.duration_s, f.memory_bytes)
        for i in range(copies)
        for f in functions
    ]


def draw_requests(functions: Sequence[Function], first_minute: int, minutes: int, seed: int) -> Requests:
    """Of `minutes` minutes; time 0 is where `first_minute` begins."""
    drawn = np.random.default_rng((seed, first_minute, 1))
    at, index, duration = [], [], []
    for i, function in enumerate(functions):
        counts = function.counts[first_minute : first_minute + minutes]
        total = int(counts.sum())
        # Poisson arrivals, given how many there are, are uniform.
        at.append((np.repeat(np.arange(len(counts)), counts) + drawn.random(total)) * 60.0)
        index.append(np.full(total, i, np.int64))
        quantiles = np.interp(drawn.random(total) * 100, _DURATIONS, function.duration_s)
        duration.append(np.maximum(quantiles, _LEAST_S))
    all_at = np.concatenate(at)
    order = np.argsort(all_at, kind="stable")
    return Requests(all_at[order], np.concatenate(index)[order], np.concatenate(duration)[order])


def draw_memory(functions: Sequence[Function], seed: int) -> Floats:
    """Bytes that an instance of each function takes."""
    drawn = np.random.default_rng((seed, 2)).random(len(functions)) * 100
    return np.array([np.interp(q, _MEMORY, f.memory_bytes) for q, f in zip(drawn, functions, strict=True)])


def _rows(file: Path) -> dict[str, dict[str, str]]:
    with file.open(newline="") as opened:
        return {row["HashFunction"]: row for row in csv.DictReader(opened)}
