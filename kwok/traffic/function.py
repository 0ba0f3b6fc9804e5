"""The cost of one request of a function, and the resources of one of its pods. Values only."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

from kwok.errors import TrafficError

__all__ = ["Function"]


@dataclass(frozen=True)
class Function:
    """A request takes a slot of its pod, then `cpu_s` of CPU, then waits for `io_s`."""

    name: str
    cpu_s: float  # mean CPU seconds of a request
    io_s: float  # mean seconds that a request waits for disk or network
    concurrency: int  # requests that a pod runs at once; others queue in the pod
    cold_start_s: float  # before a new pod serves its first request
    cpu_cores: float  # limit = request
    memory_bytes: int  # limit = request
    demand_cv: float = 0.0  # coefficient of variation of a request's demand

    def __post_init__(self) -> None:
        for field, least, most in (
            ("cpu_s", 0, 3600),
            ("io_s", 0, 3600),
            ("concurrency", 1, 10_000),
            ("cold_start_s", 0, 3600),
            ("cpu_cores", 0.001, 1024),
            ("memory_bytes", 1, 1 << 50),
            ("demand_cv", 0, 10),
        ):
            value = getattr(self, field)
            if not least <= value <= most:
                raise TrafficError(f"function {self.name}: {field} is {value!r}, not in {least}..{most}")
        if self.cpu_s == self.io_s == 0:
            raise TrafficError(f"function {self.name}: cpu_s and io_s are both 0")

    @property
    def service_s(self) -> float:
        """Seconds of an average request alone in a pod on an idle node; it uses one core at most."""
        return self.cpu_s / min(self.cpu_cores, 1.0) + self.io_s

    def compressed(self, time_factor: float) -> Function:
        """The same function with all durations divided by `time_factor`."""
        if not time_factor > 0:
            raise TrafficError(f"time_factor: {time_factor!r} must be above 0")
        return replace(
            self,
            cpu_s=self.cpu_s / time_factor,
            io_s=self.io_s / time_factor,
            cold_start_s=self.cold_start_s / time_factor,
        )

    def draw_demand(self, draw: random.Random) -> tuple[float, float]:
        """(cpu_s, io_s) of one request: lognormal, with one factor for both (a larger input needs more of
        both)."""
        if self.demand_cv == 0:
            return self.cpu_s, self.io_s
        variance = math.log1p(self.demand_cv**2)  # of the logarithm; its mean makes the factor 1 on average
        factor = math.exp(draw.gauss(-variance / 2, math.sqrt(variance)))
        return self.cpu_s * factor, self.io_s * factor
