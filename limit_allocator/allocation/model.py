"""Values of the allocator. CPU is microseconds of run time per period of 100 ms, memory is bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surgekit.errors import UserError

__all__ = [
    "PAGE_BYTES", "PERIOD_US", "Booleans", "Integers", "ParameterError", "Parameters", "Reason", "Variant",
    "first_sequence", "report_order",
]  # fmt: skip

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

PERIOD_US = 100_000  # the kernel's default period, and the paper's report period (section VI-I)
PAGE_BYTES = 4096
_MIB = 1024 * 1024
# Reports of one start of an agent, commands of one term of a controller: 10,000 a second for 3 years. Leaves
# 23 bits for starts and terms.
_PER_START = 1 << 40


class ParameterError(UserError, ValueError):
    """A parameter that cannot be used; the message names key and value."""


class Variant(StrEnum):
    """How the next CPU quota is computed (`limit_allocator.allocation.cpu`)."""

    PAPER = "paper"  # the equations as printed
    PUBLISHED = "published"  # as the authors' program reads its parameters
    BEST = "best"  # ours


class Reason(IntEnum):
    """Why a container has its limit. `cpu.explain` and `memory.explain` turn it into a sentence."""

    UNCHANGED = 0
    THROTTLED = 1
    PREDICTED = 2
    UNUSED = 3
    NEWCOMER = 4
    FAIR_SHARE = 5  # the application's limit leaves less than is needed
    FLOOR = 6
    CEILING = 7
    SILENT = 8  # no recent telemetry
    MEMORY_EVENT = 9
    RECLAIMED = 10
    RECLAIMED_FOR_OTHERS = 11
    NODE_FULL = 12


@dataclass(frozen=True, slots=True)
class Parameters:
    """Section IV's parameters of one application, with the paper's defaults (section VI-A)."""

    variant: Variant = Variant.BEST
    window_periods: int = 10  # n: periods that the windowed statistics cover
    kappa: float = 0.8  # share of the mean unused run time that a cut takes away
    gamma: float = 0.2  # a quota is cut if more than this share of it is unused
    upsilon: float = 20.0  # strength of a raise; 35 for functions that live for seconds (section VI-F)
    slice_us: int = 30_000  # `published`: unit of a raise, and the lowest quota
    # How much unused CPU time a container may save up, as a share of its quota (cpu.max.burst); 0: none.
    burst: float = 1.0
    sigma: float = 0.2  # share of the memory limit withheld for memory events; the paper gives no number
    delta_bytes: int = 50 * _MIB  # margin above usage that reclaiming leaves
    # Margin that reclaiming leaves while another container starves: one growth, so that the donor's next
    # event is not at once.
    tight_delta_bytes: int = 5_000 * PAGE_BYTES
    reclaim_every_s: float = 5.0
    growth_pages: int = 5_000  # per memory event (the published program)
    floor_us: int = 5_000  # lowest quota of a container: 0.05 core
    floor_bytes: int = 16 * _MIB
    silent_after_s: float = 1.0  # without telemetry for longer, a container keeps its limits

    def __post_init__(self) -> None:
        if self.variant not in tuple(Variant):
            raise ParameterError(f"variant: {self.variant!r} is not one of {', '.join(Variant)}")
        for field in fields(self):
            if field.name in _BOUNDS:
                _check(field.name, getattr(self, field.name), field.type == "int")
        if self.tight_delta_bytes > self.delta_bytes:
            raise ParameterError(
                f"tight_delta_bytes: {self.tight_delta_bytes!r} is above delta_bytes ({self.delta_bytes!r})"
            )

    @property
    def growth_bytes(self) -> int:
        return self.growth_pages * PAGE_BYTES


# The kernel refuses quotas under 1 ms (min_cfs_quota_period in kernel/sched/core.c).
_BOUNDS: dict[str, tuple[float, float]] = {
    "window_periods": (1, 64),
    "kappa": (0.0, 1.0),
    "gamma": (0.0, 1.0),
    "upsilon": (0.0, 1000.0),
    "slice_us": (1_000, PERIOD_US),
    "burst": (0.0, 1.0),  # the kernel allows no burst above the quota
    "sigma": (0.0, 0.9),
    "delta_bytes": (0, 1 << 40),
    "tight_delta_bytes": (0, 1 << 40),
    "reclaim_every_s": (0.1, 3600.0),
    "growth_pages": (1, 1 << 28),
    "floor_us": (1_000, 100 * PERIOD_US),
    "floor_bytes": (PAGE_BYTES, 1 << 40),
    "silent_after_s": (0.1, 3600.0),
}


def _check(key: str, value: Any, whole: bool) -> None:
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value):
        raise ParameterError(f"{key}: {value!r} is not a {'whole ' if whole else ''}number")
    low, high = _BOUNDS[key]
    if not low <= value <= high:
        raise ParameterError(f"{key}: {value!r} is outside {low}..{high}")


def report_order(start: int, number: int) -> int:
    """One number that orders an agent's reports: its starts are counted, and the reports of each."""
    return start * _PER_START + number


def first_sequence(term: int) -> int:
    """The lowest sequence number of a controller's term. Terms begin at 1."""
    return term * _PER_START
