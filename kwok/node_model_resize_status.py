"""What a kubelet writes of a resize in place (KEP-1287, Kubernetes 1.36), as strategic merge patches of a
pod's status: PodResizePending with Deferred or Infeasible while it does not fit; PodResizeInProgress and
`allocatedResources` once it is granted; then `resources` follow the spec and the conditions are gone.

A resize taken back while it waits is carried out as one more resize, to what the pod has.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kwok.node_model_room import Amount
from surgekit.pods import requests

__all__ = ["allocated", "asked", "in_progress", "is_asked", "pending", "resized"]

Json = dict[str, Any]
_PENDING, _IN_PROGRESS = "PodResizePending", "PodResizeInProgress"


def allocated(pod: Json) -> Amount:
    """What a pod was granted: its containers' allocatedResources, the spec of those not started."""
    statuses = {c["name"]: c for c in pod["status"].get("containerStatuses") or []}
    containers = []
    for container in pod["spec"]["containers"]:
        granted = statuses.get(container["name"], {}).get("allocatedResources")
        containers.append(container if granted is None else {"resources": {"requests": granted}})
    return _amount({**pod["spec"], "containers": containers})


def asked(pod: Json) -> Amount:
    return _amount(pod["spec"])


def is_asked(pod: Json) -> bool:
    """Whether a running pod's spec asks for other resources than its containers have, or did and no more."""
    status = pod["status"]
    if status.get("phase") != "Running":
        return False
    have = {c["name"]: c.get("resources") or {} for c in status.get("containerStatuses") or []}
    differs = any((c.get("resources") or {}) != have.get(c["name"], {}) for c in pod["spec"]["containers"])
    return differs or any(c["type"] == _PENDING for c in status.get("conditions") or [])


def pending(pod: Json, reason: str, message: str, now: datetime) -> Json:
    return _status(pod, [_condition(_PENDING, pod, now, reason=reason, message=message)])


def in_progress(pod: Json, now: datetime) -> Json:
    conditions = [_absent(_PENDING), _condition(_IN_PROGRESS, pod, now)]
    return _status(pod, conditions) | {"containerStatuses": _containers(pod, actual=False)}


def resized(pod: Json) -> Json:
    conditions = [_absent(_PENDING), _absent(_IN_PROGRESS)]
    return _status(pod, conditions) | {"containerStatuses": _containers(pod, actual=True)}


def _containers(pod: Json, actual: bool) -> list[Json]:
    wanted = {c["name"]: c.get("resources") or {} for c in pod["spec"]["containers"]}
    found = []
    for status in pod["status"]["containerStatuses"]:
        resources = wanted.get(status["name"], {})
        changed = {"allocatedResources": resources.get("requests") or {}}
        found.append({**status, **changed, **({"resources": resources} if actual else {})})
    return found


def _status(pod: Json, conditions: list[Json]) -> Json:
    return {"observedGeneration": pod["metadata"]["generation"], "conditions": conditions}


def _condition(kind: str, pod: Json, now: datetime, **why: str) -> Json:
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    generation = pod["metadata"]["generation"]
    return {"type": kind, "status": "True", "observedGeneration": generation, **why,
            "lastProbeTime": stamp, "lastTransitionTime": stamp}  # fmt: skip


def _absent(kind: str) -> Json:
    return {"$patch": "delete", "type": kind}


def _amount(spec: Json) -> Amount:
    cpu, memory = requests({"spec": spec})
    return Amount(round(cpu), round(memory))
