"""The conditions of a BurstFunction. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from burst_plane.model import Prepared
from surgekit.kube.conditions import Condition
from surgekit.process.modes import Mode

__all__ = ["REASONS", "Readiness", "conditions", "invalid", "overflows"]

REASONS = {
    "Eligible": (
        "Eligible", "Resolving", "CannotBeHonoured", "Refused", "NoTarget", "NotAllowed", "EgressPolicy",
        "TrafficSplit", "TooManyFunctions", "TargetTaken", "InvalidSpec", "Off",
    ),
    "Overflow": ("Enforcing", "Shadow", "Off", "NotEligible", "NoAgents", "InvalidSpec"),
    "Ready": ("Prepared", "Preparing", "CannotPrepare", "NotEligible", "NoAgents", "InvalidSpec"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Readiness:
    """What agents say of one function."""

    agents: int  # that may start instances, of any function
    nodes: tuple[tuple[str, Prepared], ...] = ()  # those that were told to prepare this template

    @property
    def prepared_nodes(self) -> int:
        return sum(p.image_present for _, p in self.nodes)

    @property
    def instances(self) -> int:
        return sum(p.created + p.frozen for _, p in self.nodes)


def conditions(mode: Mode, reason: str, message: str, readiness: Readiness) -> list[Condition]:
    """`reason` and `message` are the resolution's."""
    if reason == "InvalidSpec":
        return invalid(message)
    eligible = None if reason == "Resolving" else reason == "Eligible"
    return [
        Condition("Eligible", eligible, reason, message),
        _overflow(mode, reason, message, readiness),
        _ready(reason, readiness),
    ]


def overflows(mode: Mode, readiness: Readiness) -> bool:
    """Whether HAProxy may ask for emergency instances of an eligible function. In shadow it asks, and is
    always refused."""
    return mode is not Mode.OFF and readiness.agents > 0


def invalid(why: str) -> list[Condition]:
    """For a spec that cannot be read: its excess traffic waits, as without us."""
    return [Condition(type_, False, "InvalidSpec", why) for type_ in REASONS]


def _overflow(mode: Mode, reason: str, message: str, readiness: Readiness) -> Condition:
    if mode is Mode.OFF:
        return Condition("Overflow", False, "Off", "excess requests wait for a regular pod")
    if reason != "Eligible":
        return Condition("Overflow", False, "NotEligible", f"excess requests wait: {message}")
    if not readiness.agents:
        return Condition("Overflow", False, "NoAgents", "excess requests wait: no node agent can be asked")
    if mode is Mode.SHADOW:
        return Condition("Overflow", True, "Shadow", "placements are chosen and counted, nothing is started")
    return Condition("Overflow", True, "Enforcing", "emergency instances serve excess requests")


def _ready(reason: str, readiness: Readiness) -> Condition:
    if reason != "Eligible":
        return Condition("Ready", False, "NotEligible", "nothing is prepared")
    if not readiness.agents:
        return Condition("Ready", False, "NoAgents", "no node agent answers")
    errors = sorted({f"{node}: {p.error}" for node, p in readiness.nodes if p.error})
    if readiness.prepared_nodes:
        count = f"{readiness.instances} instances on {readiness.prepared_nodes} nodes"
        return Condition("Ready", True, "Prepared", "; ".join([count, *errors[:1]])[:500])
    if errors:
        return Condition("Ready", False, "CannotPrepare", errors[0][:500])
    return Condition("Ready", False, "Preparing", f"{len(readiness.nodes)} nodes pull its image")
