"""What a deletion leaves: an object with finalizers stays, a pod on a node stays for its grace period."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.fake_api_server.kinds import Kind
from tests.fake_api_server.updates import check_preconditions

__all__ = ["Left", "delete_steps"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Left:
    obj: Json
    stays: bool  # until its finalizers are taken off, or the kubelet deletes it without grace


def delete_steps(kind: Kind, obj: Json, options: Json, grace_in_query_s: Any) -> Left:
    """Raises ApiError where a precondition does not hold."""
    asked = options.get("preconditions") or {}
    check_preconditions(kind, obj, asked.get("uid"), asked.get("resourceVersion"))
    metadata = obj["metadata"]
    grace_s = 0
    if kind.plural == "pods":
        grace_s = _pod_grace_s(obj, options.get("gracePeriodSeconds", grace_in_query_s))
        if (before_s := metadata.get("deletionGracePeriodSeconds")) is not None:
            grace_s = min(grace_s, before_s)
    stays = bool(metadata.get("finalizers")) or grace_s > 0
    if stays and metadata.get("deletionGracePeriodSeconds") == grace_s:
        return Left(obj, stays)
    ends = datetime.now(UTC) + timedelta(seconds=grace_s)
    going = {
        "deletionTimestamp": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "deletionGracePeriodSeconds": grace_s,
    }
    generation = {"generation": metadata["generation"] + 1} if kind.has_generation else {}
    return Left(obj | {"metadata": metadata | going | generation}, stays)


def _pod_grace_s(pod: Json, asked_s: Any) -> int:
    if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    default_s = pod["spec"].get("terminationGracePeriodSeconds", 30)
    return int(default_s if asked_s is None else asked_s)
