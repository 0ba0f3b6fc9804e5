"""Explains a ComboFunc: its target, its last plan, and the state of each pod. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from combofunc.pods.pod import FunctionPod, Resizing, read
from surgekit.errors import UserError

__all__ = ["Explanation", "NothingToExplain", "PodLine", "explain"]

Json = dict[str, Any]


class NothingToExplain(UserError):
    """There is no such ComboFunc, or it has no status yet. The message says what to do."""


@dataclass(frozen=True, slots=True)
class PodLine:
    name: str
    size: str
    concurrency: int
    planned_node: str
    node: str
    state: str


@dataclass(frozen=True, slots=True)
class Explanation:
    function: str
    target: int | None
    planned: int | None
    ready: int
    shortage: int
    conditions: tuple[tuple[str, str, str, str], ...]  # type, status, reason, message
    plan: Json
    pods: tuple[PodLine, ...]


def explain(obj: Json, pods: Sequence[Json]) -> Explanation:
    metadata, status = obj["metadata"], obj.get("status") or {}
    name = f"{metadata['namespace']}/{metadata['name']}"
    if not status:
        raise NothingToExplain(f"ComboFunc {name} has no status: does `surgekit serve combofunc` run?")
    owned = [
        pod
        for pod in pods
        if any(o.get("uid") == metadata["uid"] for o in pod["metadata"].get("ownerReferences") or ())
    ]
    return Explanation(
        function=name,
        target=status.get("targetConcurrency"),
        planned=status.get("plannedConcurrency"),
        ready=status.get("readyConcurrency") or 0,
        shortage=status.get("shortage") or 0,
        conditions=tuple(
            (c["type"], c["status"], c["reason"], c["message"]) for c in status.get("conditions") or ()
        ),
        plan=status.get("plan") or {},
        pods=tuple(_line(pod) for pod in sorted(map(read, owned), key=lambda p: (p.node, p.name))),
    )


def _line(pod: FunctionPod) -> PodLine:
    return PodLine(pod.name, pod.size, pod.concurrency, pod.planned_node, pod.node, _state(pod))


def _state(pod: FunctionPod) -> str:
    states = {
        "ended": pod.finished,
        "being deleted": pod.deleting,
        "draining": pod.draining_since_s is not None,
        "waits behind its gate for room on its node": pod.gated,
        "unschedulable": pod.unschedulable_since_s is not None and not pod.node,
        "waits for the scheduler": not pod.node,
        "starting": pod.has is None or not pod.ready,
        f"resize: {pod.resizing.value}": pod.resizing is not Resizing.NONE,
    }
    return next((state for state, holds in states.items() if holds), "serving")
