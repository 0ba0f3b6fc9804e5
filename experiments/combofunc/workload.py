"""The workload of `surgekit bench combofunc`: committed before any policy ran on it.

The paper's testbed (6.1): 16 nodes of 8 CPU and 16 GB; four kinds of functions; targets from the Azure
trace, scaled to the cluster. It prints neither the functions' sizes nor the scale, so these are ours:

- A size of concurrency q has q times the cpu of one request, and memory `base + q * each`: containers of
  all sizes idle with the same footprint and share it among their requests (fig. 6: memory a concurrency
  falls with the size, in proportion when idle, less so when busy). The kinds are those of FunctionBench and
  ServerlessBench; the amounts are round figures in the order of what such programs take: a compressor
  waits for files most of the time; a transcoder fills a core and holds frames; a web page is cheap and its
  runtime is most of it; a model is loaded once and lies in the base. Steps as in fig. 14, where a replica
  has 3 to 6 of concurrency; no size takes more than half a node.
- Targets: the invocations of a minute, over the busiest of the function's window, times its peak. (By
  Little's law the requests in flight are in proportion to those that arrive; a minute is what Knative's
  stable window averages over.) One stays: scale from zero is not the question here. The peaks of the four
  together would take 90 % of the cpu that residents leave, so nothing is turned away by plan. A minute of
  the trace is played in 20 s: longer than a scale-out takes. Each function's minutes begin at a moment of
  its own.
- Which functions of the trace: all in the sample of 250 that `experiments.client_trace.eligible` lets
  through, minute by minute (six); a seed draws one for each of ours, and the hour.
- Nodes create at the speeds of `surgekit bench placement` (tau_c 1 s as in fig. 2 and 4, wandering by the
  minute within a factor of 3); images are there. tau_u is to tau_c as on a real node.
- Other tenants: residents that take 15 to 45 % of a node's cpu, as in `surgekit bench placement`, here
  with 1 to 3 GiB a core, so that nodes have fragments short of one or the other; and short-lived pods,
  half as many as there, since the functions here create all the time as well. These request nothing: they
  take a share of their node's speed, and no room.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from experiments.client_trace import Invocations, eligible, read
from kwok.errors import TrafficError
from kwok.physics import MEASURED_SPEED
from kwok.scenario import Scenario

__all__ = ["FUNCTIONS", "Function", "Newcomer", "Resident", "Size", "Targets", "Workload"]

EXTRACT = Path(__file__).parent.parent / "data" / "azure2019_minutes.csv"
MIB = 1 << 20


@dataclass(frozen=True)
class Size:
    name: str
    cpu_millicores: int
    memory_bytes: int
    concurrency: int

    @property
    def amounts(self) -> dict[str, str]:
        """As Kubernetes writes them."""
        return {"cpu": f"{self.cpu_millicores}m", "memory": f"{self.memory_bytes // MIB}Mi"}

    @property
    def offered(self) -> dict[str, str | int]:
        """As one of a ComboFunc's `sizes`."""
        return {"name": self.name, "concurrency": self.concurrency, **self.amounts}


@dataclass(frozen=True)
class Function:
    name: str
    cpu_millicores: int  # of one request
    memory_base_mib: int
    memory_each_mib: int
    steps: tuple[int, ...] = (1, 2, 3, 4, 6, 8)

    @cached_property
    def sizes(self) -> tuple[Size, ...]:
        """From the smallest to the largest."""
        return tuple(
            Size(
                name=f"c{step}",
                cpu_millicores=step * self.cpu_millicores,
                memory_bytes=(self.memory_base_mib + step * self.memory_each_mib) * MIB,
                concurrency=step,
            )
            for step in self.steps
        )


FUNCTIONS: Mapping[str, Function] = {
    function.name: function
    for function in (
        Function("file", 250, 128, 128),
        Function("video", 1000, 256, 512, steps=(1, 2, 3, 4)),
        Function("web", 125, 128, 32),
        Function("ml", 500, 768, 192),
    )
}


@dataclass(frozen=True)
class Targets:
    """A function's targets, each with its start time."""

    function: str
    of_trace: str
    changes: tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class Resident:
    """A pod of somebody else that stays."""

    name: str
    node: int
    cpu_millicores: int
    memory_bytes: int


@dataclass(frozen=True)
class Newcomer:
    """A pod of somebody else that comes and goes."""

    name: str
    node: int
    at_s: float


@dataclass(frozen=True)
class Workload:
    nodes: int = 16
    node_cpu_millicores: int = 8000
    node_memory_bytes: int = 16 << 30
    node_pods: int = 110
    tau_create_s: float = 1.0
    tau_resize_s: float = MEASURED_SPEED.tau_resize_s / MEASURED_SPEED.tau_create_s
    minutes: int = 60  # of the trace
    minute_s: float = 20.0  # that one is played in
    peak_cores: float = 20.16  # of each function: 0.9 * 0.7 * 16 * 8 / 4
    resident_share: tuple[float, float] = (0.15, 0.45)  # of a node's cpu, uniformly
    resident_gib_per_core: tuple[float, float] = (1.0, 3.0)  # uniformly; a node has 2
    newcomers_every_s: float = 8.0  # on each node, on average (exponential gaps)
    newcomer_lifetime_s: float = 16.0
    load_shows_speed: bool = True  # what slows a node down is seen in its load (node_load.py)
    trace: Path | None = None  # a folder of another Azure sample; None: the extract shipped

    @property
    def duration_s(self) -> float:
        return (self.minutes + 1) * self.minute_s

    @property
    def time_factor(self) -> float:
        """How much faster than it was the trace is played."""
        return 60 / self.minute_s

    @property
    def node_names(self) -> list[str]:
        return [f"node-{i}" for i in range(self.nodes)]

    def scenario(self, seed: int) -> Scenario:
        return Scenario.draw(
            seed, self.node_names, tau_create_s=self.tau_create_s, tau_resize_s=self.tau_resize_s
        )

    def targets(self, seed: int) -> dict[str, Targets]:
        trace = self._invocations()
        length = len(trace[0].counts)
        if not 0 < self.minutes <= length or len(trace) < len(FUNCTIONS):
            raise TrafficError(f"minutes: {self.minutes!r} must be 1 to {length}, the minutes of the extract")
        draw = random.Random(f"targets/{seed}")
        begin = draw.randrange(length - 60 + 1) if self.minutes <= 60 else 0
        chosen = draw.sample(trace, len(FUNCTIONS))
        return {
            function.name: self._targets(function, series, begin, draw.uniform(0, self.minute_s))
            for function, series in zip(FUNCTIONS.values(), chosen, strict=True)
        }

    def _invocations(self) -> list[Invocations]:
        if self.trace is None:
            return read(EXTRACT)
        return [series for series in read(self.trace / "invocations.csv") if eligible(series)]

    def _targets(self, function: Function, series: Invocations, begin: int, offset_s: float) -> Targets:
        # The busiest minute of the hour, also where fewer are played, so that these are its beginning.
        most = max(1, *series.counts[begin : begin + max(60, self.minutes)])
        peak = self.peak_cores * 1000 / function.cpu_millicores
        changes: list[tuple[float, int]] = []
        for minute, count in enumerate(series.counts[begin : begin + self.minutes]):
            target = max(1, round(peak * count / most))
            if not changes or target != changes[-1][1]:
                changes.append((offset_s + minute * self.minute_s, target))
        return Targets(function.name, series.function, tuple(changes))

    def residents(self, seed: int) -> list[Resident]:
        draw = random.Random(f"combofunc-residents/{seed}")
        found: list[Resident] = []
        for node in range(self.nodes):
            room = int(self.node_cpu_millicores * draw.uniform(*self.resident_share))
            while room >= 100:
                cpu = min(room, draw.randrange(100, 1000, 100))
                room -= cpu
                memory = int(cpu / 1000 * draw.uniform(*self.resident_gib_per_core) * 1024) * MIB
                found.append(Resident(f"resident-{len(found):04d}", node, cpu, memory))
        return found

    def newcomers(self, seed: int) -> list[Newcomer]:
        """Those of the whole run, in order of time."""
        draw = random.Random(f"combofunc-newcomers/{seed}")
        found: list[Newcomer] = []
        at_s = 0.0
        while (at_s := at_s + draw.expovariate(self.nodes / self.newcomers_every_s)) < self.duration_s:
            found.append(Newcomer(f"newcomer-{len(found):05d}", draw.randrange(self.nodes), at_s))
        return found
