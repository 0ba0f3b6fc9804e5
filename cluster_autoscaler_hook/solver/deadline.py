"""The time left for a solve. The only module of the solver that reads a clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Deadline"]


@dataclass(frozen=True, slots=True)
class Deadline:
    at_s: float
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """A bench on a shared machine gives `time.process_time`: then other processes cut nothing short."""
        if math.isnan(seconds) or seconds < 0:
            raise ValueError(f"deadline is {seconds}, it must be at least 0 seconds")
        return cls(clock() + seconds, clock)

    def left_s(self) -> float:
        return max(0.0, self.at_s - self.clock())

    def part(self, share: float) -> Deadline:
        """A deadline after this share of the time left."""
        return Deadline(self.clock() + share * self.left_s(), self.clock)

    def reached(self) -> bool:
        return self.left_s() <= 0.0
