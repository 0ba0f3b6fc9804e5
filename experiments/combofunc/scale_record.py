"""Record the result of each target change, by the arrival of the ComboFuncs' watch events."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["Change", "Record", "settled"]

Json = dict[str, Any]


@dataclass
class Change:
    function: str
    target: int
    generation: int
    at_s: float
    planned_s: float | None = None  # the status has a plan for it
    serving_s: float | None = None  # as much as it asks for is Ready
    settled_s: float | None = None  # all pods are as planned, none is to come or to go
    overtaken: bool = False  # by the next of the same function, before it was settled


class Record:
    """Consumes the watch of ComboFuncs. Nothing else writes their specs, so each write is a generation."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._lock = threading.Lock()
        self._last: dict[str, Change] = {}

    def aim(self, function: str, target: int, now_s: float) -> None:
        """Call it before the write: the watch event may arrive before the response."""
        with self._lock:
            before = self._last.get(function)
            if before and before.settled_s is None:
                before.overtaken = True
            change = Change(function, target, before.generation + 1 if before else 1, now_s)
            self._last[function] = change
            self.changes.append(change)

    def waiting(self) -> list[Change]:
        """Changes that are neither settled nor overtaken."""
        with self._lock:
            return [change for change in self._last.values() if change.settled_s is None]

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        for obj in objects:
            self.apply("ADDED", obj, arrival_s)

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        with self._lock:
            change = self._last.get(obj["metadata"]["name"])
            if kind == "DELETED" or change is None or not _planned(obj, change):
                return
            if change.planned_s is None:
                change.planned_s = arrival_s
            if change.serving_s is None and obj["status"]["readyConcurrency"] >= change.target:
                change.serving_s = arrival_s
            if change.settled_s is None and settled(obj):
                change.settled_s = arrival_s


def settled(obj: Json) -> bool:
    """Whether a ComboFunc's status says that its pods are as planned for its current spec."""
    status, generation = obj.get("status") or {}, obj["metadata"]["generation"]
    ready: Iterable[Json] = (c for c in status.get("conditions") or () if c["type"] == "Ready")
    return (
        any(c["reason"] == "Ready" and c.get("observedGeneration") == generation for c in ready)
        and status["plan"]["target"] == obj["spec"]["targetConcurrency"] <= status["readyConcurrency"]
        and status["readyConcurrency"] == status["plannedConcurrency"]
    )


def _planned(obj: Json, change: Change) -> bool:
    status = obj.get("status") or {}
    plan = status.get("plan") or {}
    return status.get("observedGeneration") == change.generation and plan.get("target") == change.target
