"""The ways to set limits that are compared, and which of ours each is compared with.

Ours gets as global limits the sums of the static arm that it is compared with; the others are compared with
ours at the sums of `static_1_5`, the paper's choice (section VI-B). Memory limits of `no_limit` and `burst`
are those of `static_1_5`. `static_1_cpu` has them, too: in `static_1` containers are killed for memory, which
would hide what the CPU limit does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from limit_allocator.allocation.model import PERIOD_US, Parameters, Variant
from limit_allocator.cgroups.container import Limits

__all__ = ["ARMS", "AUTOPILOT", "BASELINES", "OURS", "PROFILE", "Arm", "Peaks", "changed", "sums"]

_MIB = 1 << 20
_LEAST_QUOTA_US = 1_000  # the kernel refuses less
Peaks = Mapping[str, Mapping[str, float]]  # service -> cores, mib


@dataclass(frozen=True, slots=True)
class Arm:
    """`factor` of the profiled peaks is what each container's spec allows, or in sum all of ours."""

    name: str
    factor: float = 1.5
    cpu_limited: bool = True
    burst: bool = False  # cfs burst as high as the quota; ours has its parameter instead
    memory_limited: bool = True
    memory_factor: float | None = None  # if it is another one than that of CPU
    autopilot_every_s: float | None = None
    vpa_half_life_s: float | None = None
    ours: Parameters | None = None
    report_period_s: float = 0.1

    def limits(self, peaks: Peaks) -> dict[str, Limits]:
        """What containers begin with."""
        if self.ours:  # the ceiling is the application's whole limit
            cpu_us, memory_bytes = sums(peaks, self.factor)
            return {name: Limits(cpu_us, 0, memory_bytes) for name in peaks}
        return {name: self._limits(peak) for name, peak in peaks.items()}

    def memory_bytes(self, peaks: Peaks) -> int:
        """What all containers together may use."""
        if self.ours:
            return sums(peaks, self.factor)[1]
        return sum(limits.memory_bytes or 0 for limits in self.limits(peaks).values())

    def _limits(self, peak: Mapping[str, float]) -> Limits:
        quota_us = _quota_us(peak, self.factor) if self.cpu_limited else None
        # The kernel allows a burst of at most the quota.
        burst_us = quota_us if self.burst and quota_us else 0
        factor = self.factor if self.memory_factor is None else self.memory_factor
        return Limits(quota_us, burst_us, _bytes(peak, factor) if self.memory_limited else None)


def sums(peaks: Peaks, factor: float) -> tuple[int, int]:
    """An application's global limits: of CPU per period, and of memory."""
    return (
        sum(_quota_us(peak, factor) for peak in peaks.values()),
        sum(_bytes(peak, factor) for peak in peaks.values()),
    )


def _quota_us(peak: Mapping[str, float], factor: float) -> int:
    return max(round(factor * peak["cores"] * PERIOD_US), _LEAST_QUOTA_US)


def _bytes(peak: Mapping[str, float], factor: float) -> int:
    return round(factor * peak["mib"] * _MIB)


PROFILE = Arm("profile", cpu_limited=False, memory_limited=False)
AUTOPILOT = "autopilot"
# Lowest quotas are made for larger machines: eleven floors of 0.05 core, the default, are more than some of
# the limits here, and so are slices of 0.3 core, the published program's.
_FLOOR_US = 2_000
_BEST = Parameters(floor_us=_FLOOR_US)
_ALL = (
    Arm("static_0_75", 0.75),
    Arm("static_1", 1.0),
    Arm("static_1_cpu", 1.0, memory_factor=1.5),
    Arm("static_1_5", 1.5),
    Arm("no_limit", cpu_limited=False),
    Arm("burst", burst=True),
    Arm(AUTOPILOT, autopilot_every_s=1.0),
    Arm("autopilot_burst", burst=True, autopilot_every_s=1.0),
    Arm("vpa", vpa_half_life_s=86_400.0),
    Arm("ours_0_75", 0.75, ours=_BEST),
    Arm("ours_1", 1.0, ours=_BEST),
    Arm("ours_1_5", 1.5, ours=_BEST),
    Arm("ours_no_burst", ours=replace(_BEST, burst=0.0)),
    Arm("paper", ours=replace(_BEST, variant=Variant.PAPER, burst=0.0)),
    Arm("published", ours=replace(_BEST, variant=Variant.PUBLISHED, slice_us=_FLOOR_US, burst=0.0)),
)
ARMS = {arm.name: arm for arm in _ALL}
# Baseline -> ours.
BASELINES = {
    "static_0_75": "ours_0_75",
    "static_1": "ours_1",
    "static_1_cpu": "ours_1",
    "static_1_5": "ours_1_5",
    "no_limit": "ours_1_5",
    "burst": "ours_1_5",
    AUTOPILOT: "ours_1_5",
    "autopilot_burst": "ours_1_5",
    "vpa": "ours_1_5",
    "ours_no_burst": "ours_1_5",
    "paper": "ours_1_5",
    "published": "ours_1_5",
}
OURS = tuple(dict.fromkeys(BASELINES.values()))


def changed(arm: str, **parameters: Any) -> Arm:
    """One of ours with other parameters, for a sweep."""
    base = ARMS[arm]
    return replace(base, ours=replace(base.ours or _BEST, **parameters))
