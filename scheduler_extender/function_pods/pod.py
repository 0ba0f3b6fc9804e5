"""One pod of a function, as it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from scheduler_extender.function_pods import marks
from scheduler_extender.function_pods.resources import Resources, amounts_of, includes

__all__ = ["FunctionPod", "Resizing", "read"]

Json = dict[str, Any]


class Resizing(StrEnum):
    """How far an in-place resize is (KEP-1287)."""

    NONE = "None"
    IN_PROGRESS = "InProgress"  # asked for, or under way
    DEFERRED = "Deferred"  # no room on the node now: the kubelet tries again
    INFEASIBLE = "Infeasible"  # never on this node


_PENDING = {kind.value: kind for kind in (Resizing.DEFERRED, Resizing.INFEASIBLE)}


@dataclass(frozen=True, slots=True)
class FunctionPod:
    name: str
    uid: str
    template: str  # hash
    size: str  # as marked; grows after its resize, shrinks before it
    concurrency: int
    node: str  # empty: not bound
    planned_node: str
    gated: bool
    asked: Resources  # by its spec
    has: Resources | None  # by its status; None: its containers have not started
    resizing: Resizing
    resizing_since_s: float  # Unix time, as are the others; 0 where it does not apply
    ready: bool
    draining_since_s: float | None  # None: it serves
    unschedulable_since_s: float | None
    created_s: float
    deleting: bool
    finished: bool  # Succeeded or Failed: an eviction, for one

    @property
    def live(self) -> bool:
        """Whether it is there to stay unless somebody decides otherwise."""
        return not self.deleting and not self.finished

    @property
    def serves(self) -> bool:
        return self.live and self.ready and self.draining_since_s is None

    def is_as(self, wanted: Resources) -> bool:
        """Asked for and there."""
        return includes(self.asked, wanted) and self.has is not None and includes(self.has, wanted)


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
        template=labels.get(marks.TEMPLATE_LABEL, ""),
        size=labels.get(marks.SIZE_LABEL, ""),
        concurrency=_whole(annotations.get(marks.CONCURRENCY)),
        node=spec.get("nodeName") or "",
        planned_node=annotations.get(marks.PLANNED_NODE, ""),
        gated=any(gate.get("name") == marks.GATE for gate in spec.get("schedulingGates") or ()),
        asked=asked,
        has=has,
        resizing=resizing,
        resizing_since_s=since_s,
        ready=(conditions.get("Ready") or {}).get("status") == "True",
        draining_since_s=_seconds(annotations.get(marks.DRAINING_SINCE)),
        unschedulable_since_s=_unix_s(scheduled.get("lastTransitionTime")) if unschedulable else None,
        created_s=_unix_s(metadata.get("creationTimestamp")),
        deleting="deletionTimestamp" in metadata,
        finished=status.get("phase") in ("Succeeded", "Failed"),
    )


def _resizing(
    metadata: Json, conditions: dict[Any, Json], asked: Resources, has: Resources | None
) -> tuple[Resizing, float]:
    if has is None:
        return Resizing.NONE, 0.0
    pending, started = conditions.get("PodResizePending") or {}, conditions.get("PodResizeInProgress") or {}
    # One of an earlier generation speaks of a resize that was taken back meanwhile.
    current = pending.get("observedGeneration", 0) in (0, metadata.get("generation", 0))
    if not includes(has, asked):
        if pending.get("status") == "True" and current and pending.get("reason") in _PENDING:
            return _PENDING[pending["reason"]], _unix_s(pending.get("lastTransitionTime"))
        return Resizing.IN_PROGRESS, _unix_s(started.get("lastTransitionTime"))
    if started.get("status") == "True":
        return Resizing.IN_PROGRESS, _unix_s(started.get("lastTransitionTime"))
    return Resizing.NONE, 0.0


def _whole(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


def _seconds(text: str | None) -> float | None:
    """A mark that cannot be read is one from long ago: whoever made it wanted the pod gone."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return 0.0


def _unix_s(stamp: str | None) -> float:
    if not stamp:
        return 0.0
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return 0.0
