"""How long a solve may still take. The only place in FCMA that reads a clock."""

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
        """The end of a share of what is left."""
        return Deadline(time.monotonic() + share * self.left_s())

    def reached(self) -> bool:
        return self.left_s() <= 0.0
