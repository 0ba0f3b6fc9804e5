"""What the live bench plays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from experiments.pulsenet.model import Cluster, Creation

__all__ = ["ARMS", "DEFAULTS", "OURS", "PAPER", "SYNCHRONOUS", "Plan", "Setting"]

OURS, PAPER, ASYNCHRONOUS, SYNCHRONOUS = "pulsenet", "paper", "asynchronous", "synchronous"
ARMS = {OURS: 60.0, PAPER: 60.0, ASYNCHRONOUS: 60.0, SYNCHRONOUS: 600.0}  # retention, in seconds


@dataclass(frozen=True)
class Setting:
    """One arm with its parameters."""

    arm: str
    retention_s: float  # window of an autoscaler, keepalive of an instance
    cluster: Cluster = field(default_factory=Cluster)
    creation: Creation = field(default_factory=Creation)

    @property
    def has_emergency(self) -> bool:
        return self.arm in (OURS, PAPER)

    @property
    def key(self) -> str:
        return f"{self.arm} {self.retention_s:g} s, creation {self.creation.alone_s:g} s"


DEFAULTS = {arm: Setting(arm, retention_s) for arm, retention_s in ARMS.items()}
_SLOW = Creation(alone_s=3.0)
_SWEEP = (
    Setting(OURS, 10.0),
    Setting(OURS, 60.0, creation=_SLOW),
    Setting(ASYNCHRONOUS, 60.0, creation=_SLOW),
)


@dataclass(frozen=True)
class Plan:
    arms: tuple[str, ...] = (OURS, ASYNCHRONOUS, SYNCHRONOUS, PAPER)
    seeds: tuple[int, ...] = (1,)
    functions: int = 100
    warm_up_s: float = 180.0
    measured_s: float = 540.0
    sweep: bool = False  # also other settings, with which the simulation is compared
    data: Path | None = None

    @classmethod
    def quick(cls) -> Plan:
        """Within 15 minutes."""
        return cls((OURS, ASYNCHRONOUS, SYNCHRONOUS), functions=40, warm_up_s=30.0, measured_s=90.0)

    @property
    def tag(self) -> str:
        """Finished runs of another plan are not those of this one."""
        return f"live {self.functions} functions {self.warm_up_s:g}+{self.measured_s:g} s {self.data or ''}"

    @property
    def minutes(self) -> float:
        """About: a lab takes a minute to begin, and the last requests up to two."""
        runs = len(self.seeds) * (len(self.arms) + len(_SWEEP) * self.sweep)
        return runs * (self.warm_up_s + self.measured_s + 150.0) / 60.0

    def settings(self) -> Iterator[tuple[int, Setting]]:
        """Seeds and arms, beginning with another arm for each seed."""
        for seed in self.seeds:
            first = seed % len(self.arms)
            for arm in (*self.arms[first:], *self.arms[:first]):
                yield seed, DEFAULTS[arm]
            yield from ((seed, setting) for setting in _SWEEP if self.sweep)
