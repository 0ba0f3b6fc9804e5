"""The time left for a solve. The only module of the solver that reads a clock."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

__all__ = ["Deadline"]


@dataclass(frozen=True, slots=True)
class Deadline:
    at_s: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        if math.isnan(seconds) or seconds < 0:
            raise ValueError(f"deadline is {seconds}, it must be at least 0 seconds")
        return cls(time.monotonic() + seconds)

    def left_s(self) -> float:
        return max(0.0, self.at_s - time.monotonic())

    def part(self, share: float) -> Deadline:
        """A deadline after this share of the time left."""
        return Deadline(time.monotonic() + share * self.left_s())

    def reached(self) -> bool:
        return self.left_s() <= 0.0
