"""What a kubelet writes of a resize in place (KEP-1287, Kubernetes 1.36), as strategic merge patches of a
pod's status: PodResizePending with Deferred or Infeasible while it does not fit; PodResizeInProgress and
`allocatedResources` once it is granted; then `resources` follow the spec and the conditions are gone.

A resize taken back while it waits is carried out as one more resize, to what the pod has.

Memory that is in use is not taken away (validateMemoryResizeAction of pkg/kubelet/kuberuntime): a granted
resize that would lower a memory limit to the use or below changes nothing, cpu included. PodResizeInProgress
then has the reason Error, `allocatedResources` are those granted, `resources` those it had; the kubelet tries
again until it can.
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
    """Whether a running pod's spec asks for other resources than its containers have, or did in vain."""
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
    """Granted, and not carried out."""
    error = _condition(_IN_PROGRESS, pod, now, reason="Error", message=message)
    return _status(pod, [_absent(_PENDING), error])


def memory_in_use(pod: Json) -> float:
    """In bytes; 0 where the pod does not say."""
    said = (pod["metadata"].get("annotations") or {}).get(MEMORY_IN_USE)
    return parse(said) if said else 0.0


def too_small(pod: Json, in_use_bytes: float) -> str:
    """Why a kubelet does not carry out what this pod's spec asks for, in its words; empty when it does."""
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
    """0: none."""
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
