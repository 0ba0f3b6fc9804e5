"""Reads one pod of a function. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from combofunc.labels import (
    CONCURRENCY_ANNOTATION,
    DRAINING_SINCE_ANNOTATION,
    MAX_CONCURRENCY,
    PLACEMENT_GATE,
    PLANNED_NODE_ANNOTATION,
    SIZE_LABEL,
    SIZE_OFFER_ANNOTATION,
    TEMPLATE_LABEL,
)
from combofunc.pods.resources import Resources, amounts_of, includes
from combofunc.pods.size_offer import batch_of
from surgekit.kube.checked import checked
from surgekit.kube.numbers import decimal, integer

__all__ = ["FunctionPod", "Resizing", "read"]

Json = dict[str, Any]


class Resizing(StrEnum):
    """State of an in-place resize (KEP-1287)."""

    NONE = "None"
    IN_PROGRESS = "InProgress"  # requested, or under way
    DEFERRED = "Deferred"  # no room on the node now; the kubelet tries again
    INFEASIBLE = "Infeasible"  # never possible on this node
    MEMORY_IN_USE = "MemoryInUse"  # it takes away memory in use; the kubelet carries out no part of it
    FAILING = "Error"  # another error; the kubelet tries again


# A kubelet's message (validateMemoryResizeAction, 1.36) and the use it names, which is the whole pod's.
_CANNOT_DECREASE = "cannot decrease memory limits"
_USAGE = re.compile(r"below current usage \((\d{1,18})\)", re.ASCII)
_MAX_MESSAGE = 2000  # characters to read
_PENDING = {kind.value: kind for kind in (Resizing.DEFERRED, Resizing.INFEASIBLE)}


@dataclass(frozen=True, slots=True)
class FunctionPod:
    name: str
    uid: str
    template: str  # hash
    size: str  # by its label: changed after a growth took effect, before a shrink is requested
    concurrency: int
    node: str  # empty: not bound yet
    planned_node: str
    gated: bool
    asked: Resources  # from its spec
    has: Resources | None  # from its status; None: its containers have not started
    resizing: Resizing
    resizing_since_s: float  # Unix time, like the other times; 0 if no resize is under way
    memory_used_bytes: int  # named by the kubelet with MEMORY_IN_USE; else 0
    ready: bool
    draining_since_s: float | None  # None: not draining
    unschedulable_since_s: float | None
    created_s: float
    deleting: bool
    finished: bool  # Succeeded or Failed, for example after an eviction
    batch: str = ""  # the batch whose sizes are on offer (size_offer.py), while it waits for a node

    @property
    def awaits_node(self) -> bool:
        """Whether it was created for a node that does not exist yet."""
        return not (self.node or self.planned_node or self.gated or self.finished)

    @property
    def live(self) -> bool:
        """Neither being deleted nor finished."""
        return not self.deleting and not self.finished

    @property
    def serves(self) -> bool:
        return self.live and self.ready and self.draining_since_s is None

    def is_as(self, wanted: Resources) -> bool:
        """Whether both spec and status have the wanted resources."""
        return includes(self.asked, wanted) and self.has is not None and includes(self.has, wanted)


@checked
def read(obj: Json) -> FunctionPod:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    containers = spec.get("containers") or ()
    statuses = status.get("containerStatuses") or ()
    running = len(statuses) >= len(containers) and all("running" in (s.get("state") or {}) for s in statuses)
    asked = amounts_of(containers)
    has = amounts_of(statuses) if running else None
    resizing, since_s = _resizing(metadata, conditions, asked, has)
    scheduled = conditions.get("PodScheduled") or {}
    unschedulable = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    return FunctionPod(
        name=metadata["name"],
        uid=metadata["uid"],
        template=labels.get(TEMPLATE_LABEL, ""),
        size=labels.get(SIZE_LABEL, ""),
        # 0 if it cannot be read: the next `Mark` corrects it.
        concurrency=integer(annotations.get(CONCURRENCY_ANNOTATION), 0, MAX_CONCURRENCY) or 0,
        node=spec.get("nodeName") or "",
        planned_node=annotations.get(PLANNED_NODE_ANNOTATION, ""),
        gated=any(gate.get("name") == PLACEMENT_GATE for gate in spec.get("schedulingGates") or ()),
        asked=asked,
        has=has,
        resizing=resizing,
        resizing_since_s=since_s,
        memory_used_bytes=_used(conditions) if resizing is Resizing.MEMORY_IN_USE else 0,
        ready=(conditions.get("Ready") or {}).get("status") == "True",
        draining_since_s=_seconds(annotations.get(DRAINING_SINCE_ANNOTATION)),
        unschedulable_since_s=_unix_s(scheduled.get("lastTransitionTime")) if unschedulable else None,
        created_s=_unix_s(metadata.get("creationTimestamp")),
        deleting="deletionTimestamp" in metadata,
        finished=status.get("phase") in ("Succeeded", "Failed"),
        batch="" if spec.get("nodeName") else batch_of(annotations.get(SIZE_OFFER_ANNOTATION)),
    )


def _resizing(
    metadata: Json, conditions: dict[Any, Json], asked: Resources, has: Resources | None
) -> tuple[Resizing, float]:
    if has is None:
        return Resizing.NONE, 0.0
    pending, started = conditions.get("PodResizePending") or {}, conditions.get("PodResizeInProgress") or {}
    # A condition of an earlier generation is about a resize that was replaced meanwhile.
    generations = (0, metadata.get("generation", 0))
    if not includes(has, asked):
        current = pending.get("observedGeneration", 0) in generations
        if pending.get("status") == "True" and current and pending.get("reason") in _PENDING:
            return _PENDING[pending["reason"]], _unix_s(pending.get("lastTransitionTime"))
        current = started.get("observedGeneration", 0) in generations
        if started.get("status") == "True" and current and started.get("reason") == "Error":
            in_use = str(started.get("message")).startswith(_CANNOT_DECREASE)
            kind = Resizing.MEMORY_IN_USE if in_use else Resizing.FAILING
            return kind, _unix_s(started.get("lastTransitionTime"))
        return Resizing.IN_PROGRESS, _unix_s(started.get("lastTransitionTime"))
    if started.get("status") == "True":
        return Resizing.IN_PROGRESS, _unix_s(started.get("lastTransitionTime"))
    return Resizing.NONE, 0.0


def _used(conditions: dict[Any, Json]) -> int:
    message = str(conditions["PodResizeInProgress"].get("message"))[:_MAX_MESSAGE]
    return max(map(int, _USAGE.findall(message)), default=0)


def _seconds(text: str | None) -> float | None:
    """Unix time; 0 if it cannot be read. The pod was meant to leave, so treat it as drained long ago."""
    return None if text is None else decimal(text, 0.0, 1e11) or 0.0


def _unix_s(stamp: str | None) -> float:
    if not stamp:
        return 0.0
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return 0.0
