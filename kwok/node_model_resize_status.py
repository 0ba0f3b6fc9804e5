"""The pod status that a kubelet writes during a resize in place (KEP-1287, Kubernetes 1.36), as strategic
merge patches.

PodResizePending with Deferred or Infeasible while it does not fit; PodResizeInProgress and
`allocatedResources` when it is granted; then `resources` follow the spec and the conditions are removed. A
resize withdrawn while it waits is carried out as another resize, back to the pod's present resources.

Memory in use is not taken away (validateMemoryResizeAction of pkg/kubelet/kuberuntime): a granted resize
that would set a memory limit at or below the usage changes nothing, its CPU part included.
PodResizeInProgress then has the reason Error, `allocatedResources` are the granted ones and `resources` the
former ones. The kubelet retries until it succeeds.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kwok.node_model_room import Amount
from surgekit.kube.pods import requests
from surgekit.kube.quantity import parse

__all__ = [
    "MEMORY_IN_USE", "allocated", "asked", "failed", "in_progress", "is_asked", "memory_in_use", "pending",
    "resized", "too_small",
]  # fmt: skip

Json = dict[str, Any]
_PENDING, _IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
# What the pod's first container uses, as a quantity; a test sets and changes it.
MEMORY_IN_USE = "lab.surgekit.dev/memory-in-use"


def allocated(pod: Json) -> Amount:
    """The granted resources: allocatedResources of its containers, or the spec of those not started."""
    statuses = {c["name"]: c for c in pod["status"].get("containerStatuses") or []}
    containers = []
    for container in pod["spec"]["containers"]:
        granted = statuses.get(container["name"], {}).get("allocatedResources")
        containers.append(container if granted is None else {"resources": {"requests": granted}})
    return _amount({**pod["spec"], "containers": containers})


def asked(pod: Json) -> Amount:
    return _amount(pod["spec"])


def is_asked(pod: Json) -> bool:
    """Whether a running pod's spec differs from its containers' resources, or its last resize did not
    succeed."""
    status = pod["status"]
    if status.get("phase") != "Running":
        return False
    have = {c["name"]: c.get("resources") or {} for c in status.get("containerStatuses") or []}
    differs = any((c.get("resources") or {}) != have.get(c["name"], {}) for c in pod["spec"]["containers"])
    return differs or any(
        c["type"] == _PENDING or (c["type"] == _IN_PROGRESS and c.get("reason") == "Error")
        for c in status.get("conditions") or []
    )


def pending(pod: Json, reason: str, message: str, now: datetime) -> Json:
    return _status(pod, [_condition(_PENDING, pod, now, reason=reason, message=message)])


def in_progress(pod: Json, now: datetime) -> Json:
    conditions = [_absent(_PENDING), _condition(_IN_PROGRESS, pod, now)]
    return _status(pod, conditions) | {"containerStatuses": _containers(pod, actual=False)}


def resized(pod: Json) -> Json:
    conditions = [_absent(_PENDING), _absent(_IN_PROGRESS)]
    return _status(pod, conditions) | {"containerStatuses": _containers(pod, actual=True)}


def failed(pod: Json, message: str, now: datetime) -> Json:
    """Granted, but not carried out."""
    error = _condition(_IN_PROGRESS, pod, now, reason="Error", message=message)
    return _status(pod, [_absent(_PENDING), error])


def memory_in_use(pod: Json) -> float:
    """In bytes; 0 without the annotation."""
    said = (pod["metadata"].get("annotations") or {}).get(MEMORY_IN_USE)
    return parse(said) if said else 0.0


def too_small(pod: Json, in_use_bytes: float) -> str:
    """The kubelet's message if it cannot carry out the pod's spec; empty if it can."""
    had = {c["name"]: _limit(c) for c in pod["status"].get("containerStatuses") or []}
    wanted = {c["name"]: _limit(c) for c in pod["spec"]["containers"]}
    whole = sum(wanted.values())
    errors = []
    # A pod has a limit of its own only if all its containers have one.
    if all(wanted.values()) and whole < sum(had.values()) and in_use_bytes >= whole:
        errors.append(f"attempting to set pod memory limit ({whole})")
    first = pod["spec"]["containers"][0]["name"]
    lowered = wanted[first] and (not had.get(first) or wanted[first] < had[first])
    if lowered and in_use_bytes >= wanted[first]:
        errors.append(f'attempting to set container "{first}" memory limit ({wanted[first]})')
    said = ", ".join(f"{error} below current usage ({in_use_bytes:.0f})" for error in errors)
    return f"cannot decrease memory limits: {f'[{said}]' if len(errors) > 1 else said}" if errors else ""


def _limit(container: Json) -> int:
    """The memory limit in bytes; 0 if there is none."""
    return round(parse(((container.get("resources") or {}).get("limits") or {}).get("memory", 0)))


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
