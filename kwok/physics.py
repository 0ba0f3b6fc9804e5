"""How one emulated node behaves: its speed, and how creations and resizes on it slow each other down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from cluster_model import contention
from kwok.errors import ScenarioError

__all__ = ["MEASURED", "MEASURED_SPEED", "PAPER", "NodeSpeed", "Physics", "check"]


def check(key: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ScenarioError(f"{key}: {value!r} is not a finite number")
    if not low <= value <= high:
        raise ScenarioError(f"{key}: {value!r} is outside {low:g}..{high:g}")
    return value


@dataclass(frozen=True)
class NodeSpeed:
    """Seconds to create one container alone (tau_c), and to resize one in place (tau_u).

    `changes` are (start time, tau_create_s) and replace the walk on this node.
    """

    tau_create_s: float
    tau_resize_s: float
    changes: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        check("tau_create_s", self.tau_create_s, 1e-3, 3600)
        check("tau_resize_s", self.tau_resize_s, 0, 3600)
        times = [at_s for at_s, _ in self.changes]
        if times != sorted(times):
            raise ScenarioError(f"changes: {times!r} must be in order of time")
        for at_s, tau_s in self.changes:
            check("changes (time)", at_s, 0, 1e9)
            check("changes (tau_create_s)", tau_s, 1e-3, 3600)


@dataclass(frozen=True)
class Physics:
    """How pods on one node slow each other down. The same on all nodes.

    Jobs run at full speed while no more than `side_by_side` of them run; k jobs beyond that get
    side_by_side / k of it each. A pod with m containers is 1 + extra_container * (m - 1) units of work. The
    first `latency` of it, as a share, slows nobody down and is not slowed down. `spread` is the standard
    deviation of the logarithm of a pod's work, because equal pods do not finish together.
    """

    creations_side_by_side: float = 1.0  # 1: ComboFunc's eq. (6)
    resizes_side_by_side: float = 1000.0  # resizes do not slow each other down
    extra_container: float = 1.0
    creation_latency: float = 0.0
    resize_latency: float = 0.0
    spread: float = 0.0

    def __post_init__(self) -> None:
        check("physics.creations_side_by_side", self.creations_side_by_side, 1, 1000)
        check("physics.resizes_side_by_side", self.resizes_side_by_side, 1, 1000)
        check("physics.extra_container", self.extra_container, 0, 10)
        check("physics.creation_latency", self.creation_latency, 0, 1)
        check("physics.resize_latency", self.resize_latency, 0, 1)
        check("physics.spread", self.spread, 0, 1)

    def work(self, containers: int) -> float:
        return 1.0 + self.extra_container * (max(containers, 1) - 1)


PAPER = Physics()
# As `cluster_model/contention.py` has it for scores and plans, from the same measurement.
MEASURED_SPEED = NodeSpeed(tau_create_s=0.27, tau_resize_s=0.07)
MEASURED = Physics(
    creations_side_by_side=contention.MEASURED.creation.side_by_side,
    resizes_side_by_side=contention.MEASURED.resize.side_by_side,
    extra_container=contention.MEASURED.extra_container,
    creation_latency=contention.MEASURED.creation.latency,
    resize_latency=contention.MEASURED.resize.latency,
    spread=0.14,
)
