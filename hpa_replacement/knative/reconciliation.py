"""Plans the writes that give a PodAutoscaler of our class its KneePolicy, ServerlessService and status.

Pure and level-based: the plan holds only differences, so it is empty once everything is in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hpa_replacement.knative.pod_autoscaler import (
    POD_AUTOSCALERS,
    PodAutoscaler,
    PodAutoscalerError,
    is_ours,
    read,
)
from hpa_replacement.knative.pod_autoscaler_status import (
    Observed,
    condition_of,
    status_if_refused,
    status_of,
)
from hpa_replacement.kneepolicy import KNEE_POLICIES
from surgekit.kube.api_path import Resource
from surgekit.kube.scale_target import ScaleTarget

__all__ = ["SKS_PATH", "Create", "Patch", "ScaleTo", "Step", "controlled", "plan"]

Json = dict[str, Any]
_SERVERLESS_SERVICES = Resource("networking.internal.knative.dev/v1alpha1", "serverlessservices")
SKS_PATH = _SERVERLESS_SERVICES.path()
# Reasons of the policy's condition Deciding while somebody else, or the user's budget, sets the replicas.
_HANDS_OFF = frozenset({"AnotherAutoscaler", "Paused", "BudgetSpent"})


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    body: Json


@dataclass(frozen=True, slots=True)
class Patch:
    path: str
    body: Json  # a merge patch


@dataclass(frozen=True, slots=True)
class ScaleTo:
    target: ScaleTarget
    replicas: int


Step = Create | Patch | ScaleTo


def plan(
    obj: Json,
    sks: Json | None,
    policy: Json | None,
    target: Observed | str,
    default_high: int,
    now_s: float,
) -> tuple[Step, ...]:
    """`sks` and `policy` have the PodAutoscaler's name; they may belong to somebody else."""
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        return ()  # the garbage collector deletes the objects it owns
    if not is_ours(obj):
        # If it has a policy, its class was ours: two autoscalers must not fight over one target.
        if policy and controlled(policy, obj) and policy["spec"].get("mode") != "off":
            return (_patch(KNEE_POLICIES, policy, {"spec": {"mode": "off"}}),)
        return ()
    try:
        pa = read(obj, default_high)
    except PodAutoscalerError as error:
        return _status(obj, status_if_refused(obj, "Invalid", str(error), now_s))
    for kind, other in (("KneePolicy", policy), ("ServerlessService", sks)):
        if other and not controlled(other, obj):
            message = f"there is a {kind} {pa.name} that this PodAutoscaler does not own"
            return _status(obj, status_if_refused(obj, "NotOwned", message, now_s))
    policy_spec, sks_spec = _policy_spec(pa), _sks_spec(pa, sks, target)
    desired = ((policy or {}).get("status") or {}).get("targetReplicas")
    return (
        *_keep(obj, KNEE_POLICIES, "KneePolicy", policy, policy_spec),
        *_keep(obj, _SERVERLESS_SERVICES, "ServerlessService", sks, sks_spec),
        *_within_bounds(pa, policy, target),
        *_status(obj, status_of(pa, obj, sks, desired, target, now_s)),
    )


def controlled(obj: Json, by: Json) -> bool:
    owners = obj["metadata"].get("ownerReferences") or []
    return any(o.get("controller") and o["uid"] == by["metadata"]["uid"] for o in owners)


def _policy_spec(pa: PodAutoscaler) -> Json:
    """The fields we own; users may set the others (thresholds, search, interval, paused)."""
    target = pa.target
    return {
        "scaleTargetRef": {"apiVersion": target.api_version, "kind": target.kind, "name": target.name},
        "mode": "enforce",
        "via": "scale",
        "minReplicas": pa.low,
        "maxReplicas": pa.high,
        "metrics": {"preset": "knative", "function": pa.name},
    }


def _sks_spec(pa: PodAutoscaler, sks: Json | None, target: Observed | str) -> Json:
    """Requests wait in the activator while no pod is Ready."""
    if isinstance(target, Observed):
        mode = "Serve" if target.ready else "Proxy"
    else:
        mode = sks["spec"].get("mode", "Proxy") if sks else "Proxy"
    reference = {"apiVersion": pa.target.api_version, "kind": pa.target.kind, "name": pa.target.name}
    # 0 means all activators, as in Knative's HPA class.
    return {"mode": mode, "objectRef": reference, "protocolType": pa.protocol, "numActivators": 0}


def _keep(owner: Json, resource: Resource, kind: str, have: Json | None, spec: Json) -> tuple[Step, ...]:
    if have:
        if have["metadata"].get("deletionTimestamp") or _holds(have["spec"], spec):
            return ()
        return (_patch(resource, have, {"spec": spec}),)
    metadata = owner["metadata"]
    body = {
        "apiVersion": resource.api_version,
        "kind": kind,
        "metadata": {
            "name": metadata["name"],
            # Knative finds a revision's Services by these labels, which the ServerlessService copies to them.
            "labels": dict(metadata.get("labels") or {}),
            "ownerReferences": [
                {
                    "apiVersion": POD_AUTOSCALERS.api_version,
                    "kind": "PodAutoscaler",
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": spec,
    }
    return (Create(resource.path(metadata["namespace"]), body),)


def _within_bounds(pa: PodAutoscaler, policy: Json | None, target: Observed | str) -> tuple[Step, ...]:
    """Scale to the bounds at once, without waiting for a decision of the policy.

    A policy needs samples, samples need requests, and a revision gets requests once min-scale pods are Ready.
    But first the policy must have checked that nobody else scales the target.
    """
    if policy is None or isinstance(target, str):
        return ()
    seen = (policy.get("status") or {}).get("observedGeneration") == policy["metadata"].get("generation")
    deciding = condition_of(policy, "Deciding")
    replicas = min(max(target.replicas, pa.low), pa.high)
    if not seen or not deciding.reason or deciding.reason in _HANDS_OFF or replicas == target.replicas:
        return ()
    return (ScaleTo(pa.target, replicas),)


def _status(obj: Json, status: Json) -> tuple[Step, ...]:
    if _holds(obj.get("status") or {}, status):
        return ()
    return (_patch(POD_AUTOSCALERS, obj, {"status": status}, "status"),)


def _patch(resource: Resource, obj: Json, body: Json, subresource: str | None = None) -> Patch:
    metadata = obj["metadata"]
    path = resource.path(metadata["namespace"], metadata["name"], subresource)
    # So that the API server refuses if the name now belongs to a new object. It ignores a uid in a status.
    guard = "resourceVersion" if subresource else "uid"
    return Patch(path, {"metadata": {guard: metadata[guard]}, **body})


def _holds(have: Any, wanted: Any) -> bool:
    """Whether a merge patch with `wanted` would change nothing."""
    if isinstance(have, dict) and isinstance(wanted, dict):
        return all(key in have and _holds(have[key], value) for key, value in wanted.items())
    return bool(have == wanted)
