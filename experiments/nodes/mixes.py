"""The mixes of pods of `surgekit bench nodes`, fixed before the first run: none was chosen by its result."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kwok.errors import LabError

__all__ = ["Mix", "PodSize", "TraceFunction", "mixes", "read_trace"]

_EXTRACT = Path(__file__).parents[1] / "data" / "azure2019_functions.csv"
_FUNCTIONS = 20  # drawn for a mix from the trace
_TRACE_SEEDS = (1, 2)


@dataclass(frozen=True)
class PodSize:
    cpu_millicores: int
    memory_mib: int
    count: int


@dataclass(frozen=True)
class Mix:
    name: str
    sizes: tuple[PodSize, ...]

    @property
    def pods(self) -> int:
        return sum(size.count for size in self.sizes)


@dataclass(frozen=True)
class TraceFunction:
    """A function of a trace."""

    memory_mb: float
    duration_ms: float
    peak_per_minute: int

    def size(self) -> PodSize:
        """A deployment for ten times its busiest minute: memory as measured, in steps of 32 MiB; CPU grows
        with the duration, since the trace has no CPU."""
        busy = 10 * self.peak_per_minute / 60 * self.duration_ms / 1000
        cpu = 250 if self.duration_ms < 1000 else 500 if self.duration_ms < 10000 else 1000
        memory = max(64, math.ceil(self.memory_mb / 32) * 32)
        return PodSize(cpu, memory, min(8, 1 + math.ceil(busy)))


def mixes(data: Path | None = None, seeds: Sequence[int] | None = None) -> list[Mix]:
    """All mixes. Those from the trace use `data`, a folder in the Azure trace's format, if given; one is
    drawn with each seed."""
    functions = read_trace(data)
    drawn = [
        Mix(f"trace-{seed}", tuple(f.size() for f in random.Random(seed).sample(functions, _FUNCTIONS)))
        for seed in seeds or _TRACE_SEEDS
    ]
    return [
        Mix("uniform", (PodSize(900, 3072, 20),)),
        Mix("memory-heavy", (PodSize(500, 7168, 30),)),
        Mix("cpu-heavy", (PodSize(1900, 1024, 40),)),
        Mix(
            "five-kinds",
            (
                PodSize(250, 512, 12),
                PodSize(700, 2800, 10),
                PodSize(1500, 3072, 8),
                PodSize(2400, 12288, 5),
                PodSize(3900, 6144, 3),
            ),
        ),
        Mix("large-and-small", (PodSize(7500, 20480, 6), PodSize(300, 400, 24))),
        *drawn,
    ]


def read_trace(data: Path | None) -> list[TraceFunction]:
    try:
        if data is None:
            with _EXTRACT.open(newline="") as file:
                return [
                    TraceFunction(
                        float(row["memory_mb_pct99"]),
                        float(row["duration_ms_average"]),
                        int(row["invocations_per_minute_peak"]),
                    )
                    for row in csv.DictReader(file)
                ]
        memory, durations, invocations = (
            _by_function(data / name) for name in ("memory.csv", "durations.csv", "invocations.csv")
        )
        return [
            TraceFunction(
                float(memory[name]["AverageAllocatedMb_pct99"]),
                float(durations[name]["Average"]),
                max(int(count) for minute, count in invocations[name].items() if minute.isdigit()),
            )
            for name in sorted(set(memory) & set(durations) & set(invocations))
        ]
    except (OSError, KeyError, ValueError) as error:
        raise LabError(f"trace in {str(data or _EXTRACT)!r} cannot be used: {error!r}") from error


def _by_function(file: Path) -> dict[str, dict[str, str]]:
    with file.open(newline="") as opened:
        return {row["HashFunction"]: row for row in csv.DictReader(opened)}
