"""Decide which NodeSpeed objects to write next, and their content.

5,000 nodes must not load the API server: a write needs a reason, and each round has a budget.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from node_speed_probe.model import ImagePull, NodeSpeedEstimate, Reason
from node_speed_probe.settings import Settings
from surgekit.kube.api_path import Resource

__all__ = [
    "API_VERSION",
    "KIND",
    "NODE_SPEEDS",
    "PATH",
    "Published",
    "choose_writes",
    "new_object",
    "read_published",
    "status_of",
]

API_VERSION, KIND = "surgekit.dev/v1alpha1", "NodeSpeed"
NODE_SPEEDS = Resource(API_VERSION, "nodespeeds")
PATH = NODE_SPEEDS.path()
_NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Published:
    """The fields of a published NodeSpeed that decide about the next write."""

    tau_create_s: float
    reason: str
    at_s: float  # when it was written, on the monotonic clock
    tau_resize_s: float | None = None
    image_pulls: tuple[ImagePull, ...] = ()
    samples: int = 0
    last_sample_s: float | None = None
    changed_time: str = ""  # lastTransitionTime of the condition
    generation: int = 1


def choose_writes(
    estimates: Iterable[NodeSpeedEstimate],
    published: Mapping[str, Published],
    budget: int,
    now_s: float,
    settings: Settings,
) -> list[NodeSpeedEstimate]:
    """At most `budget` writes, the biggest change first.

    A quarter of the budget (at least one write) goes to the nodes that have waited longest, so that none
    waits forever behind nodes that keep changing more.
    """
    wanted = []
    for estimate in estimates:
        before = published.get(estimate.node)
        change = _change(estimate, before, now_s, settings)
        if change > 0:
            wanted.append((change, _NEVER if before is None else now_s - before.at_s, estimate))
    by_change = sorted(wanted, key=lambda w: (-w[0], -w[1], w[2].node))
    if len(by_change) <= budget:
        return [w[2] for w in by_change]
    reserved = min(budget, max(1, budget // 4))
    urgent, rest = by_change[: budget - reserved], by_change[budget - reserved :]
    waited = sorted(rest, key=lambda w: (-w[1], -w[0], w[2].node))[:reserved]
    return [w[2] for w in urgent + waited]


def _change(estimate: NodeSpeedEstimate, before: Published | None, now_s: float, settings: Settings) -> float:
    """How much a write would change; 0 if it is not worth one."""
    if before is None:
        # A prior need not be written: readers assume the same without the object.
        return _NEVER if estimate.source == "measured" else settings.change_threshold
    tau = _relative(estimate.tau_create_s, before.tau_create_s)
    resize = _relative(estimate.tau_resize_s or 0.0, before.tau_resize_s or 0.0)
    change = max(tau, resize)
    new_pulls = [_pull(p) for p in estimate.image_pulls] != [_pull(p) for p in before.image_pulls]
    if estimate.reason != before.reason or new_pulls:
        return max(change, settings.change_threshold)
    if change > settings.change_threshold:
        return change
    # The name shifts the time, so that objects written together are not refreshed together.
    spread = 0.8 + 0.4 * (zlib.crc32(estimate.node.encode()) % 1000) / 1000
    due = now_s - before.at_s > settings.refresh_s * spread
    return settings.change_threshold if due else 0.0


def _relative(value: float, before: float) -> float:
    if before <= 0:
        return 0.0 if value <= 0 else _NEVER
    return abs(value - before) / before


def new_object(estimate: NodeSpeedEstimate) -> dict[str, Any]:
    """A NodeSpeed owned by its Node, so that it is deleted with the node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": estimate.node, "uid": estimate.node_uid}
    metadata = {"name": estimate.node, "ownerReferences": [owner]}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {}}


def status_of(estimate: NodeSpeedEstimate, before: Published, now_s: float, wall: datetime) -> dict[str, Any]:
    measured = estimate.reason is Reason.MEASURED
    same = before.changed_time and (before.reason == Reason.MEASURED) == measured
    condition = {
        "type": "Measured",
        "status": "True" if measured else "False",
        "reason": str(estimate.reason),
        "message": _MESSAGE[estimate.reason],
        "observedGeneration": before.generation,
        "lastTransitionTime": before.changed_time if same else _time(wall),
    }
    last = estimate.last_sample_s
    return {
        "tauCreateSeconds": _rounded(estimate.tau_create_s),
        "tauCreateRelativeError": _rounded(estimate.tau_create_rel_error, 2),
        "samples": estimate.samples,
        "source": estimate.source,
        "creating": estimate.creating,
        # A null in a merge patch deletes the field.
        "tauResizeSeconds": None if estimate.tau_resize_s is None else _rounded(estimate.tau_resize_s),
        "imagePulls": [_pull(p) for p in estimate.image_pulls],
        "lastSampleTime": None if last is None else _time(wall - timedelta(seconds=now_s - last)),
        "observedTime": _time(wall),
        "conditions": [condition],
    }


_MESSAGE = {
    Reason.MEASURED: "from creations seen on this node",
    Reason.PRIOR_OF_PEERS: "no creation seen on this node yet; the median of the measured nodes",
    Reason.DEFAULT_PRIOR: "no creation seen on any node yet; the setting default_tau_create_s",
    Reason.STALE: "the last creation was long ago; mostly the median of the measured nodes",
}


def read_published(obj: dict[str, Any], now_s: float, wall: datetime) -> tuple[str, Published] | None:
    """Read an object from the API server; None without a readable status."""
    status, metadata = obj.get("status") or {}, obj["metadata"]
    try:
        condition: dict[str, Any] = next(iter(status.get("conditions") or ()), {})
        pulls = tuple(
            ImagePull(p["image"], float(p["seconds"]), p.get("sizeBytes"))
            for p in status.get("imagePulls") or ()
        )
        last = status.get("lastSampleTime")
        return metadata["name"], Published(
            tau_create_s=float(status["tauCreateSeconds"]),
            reason=condition.get("reason", ""),
            at_s=_monotonic(status["observedTime"], now_s, wall),
            tau_resize_s=status.get("tauResizeSeconds"),
            image_pulls=pulls,
            samples=int(status.get("samples", 0)),
            last_sample_s=_monotonic(last, now_s, wall) if last else None,
            changed_time=condition.get("lastTransitionTime", ""),
            generation=int(metadata.get("generation", 1)),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _pull(pull: ImagePull) -> dict[str, Any]:
    size = {} if pull.size_bytes is None else {"sizeBytes": pull.size_bytes}
    return {"image": pull.image, "seconds": _rounded(pull.seconds), **size}


def _rounded(value: float, digits: int = 4) -> float:
    """Round: digits beyond the accuracy would only make objects differ."""
    return float(f"{value:.{digits}g}")


def _time(wall: datetime) -> str:
    return wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _monotonic(text: str, now_s: float, wall: datetime) -> float:
    return now_s - max((wall - datetime.fromisoformat(text)).total_seconds(), 0.0)
