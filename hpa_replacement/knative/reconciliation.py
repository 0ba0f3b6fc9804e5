"""What to write so that a PodAutoscaler of our class has its KneePolicy, ServerlessService and status.

Pure and level-based: only differences are written, so once they are in force there is nothing left to write.
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
# Of the policy's condition Deciding: the replicas are as somebody else, or a budget of the user's, has them.
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
    """`sks` and `policy` are those of the PodAutoscaler's name, whoever made them."""
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        return ()  # what it owns goes with it
    if not is_ours(obj):
        # It was, if it has a policy: two autoscalers must not pull at one target.
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
    wanted = ((policy or {}).get("status") or {}).get("targetReplicas")
    return (
        *_keep(obj, KNEE_POLICIES, "KneePolicy", policy, policy_spec),
        *_keep(obj, _SERVERLESS_SERVICES, "ServerlessService", sks, sks_spec),
        *_within_bounds(pa, policy, target),
        *_status(obj, status_of(pa, obj, sks, wanted, target, now_s)),
    )


def controlled(obj: Json, by: Json) -> bool:
    owners = obj["metadata"].get("ownerReferences") or []
    return any(o.get("controller") and o["uid"] == by["metadata"]["uid"] for o in owners)


def _policy_spec(pa: PodAutoscaler) -> Json:
    """All else (thresholds, search, interval, paused) is left to whoever wants to set it."""
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
    """Requests wait in the activator while no pod could take them."""
    if isinstance(target, Observed):
        mode = "Serve" if target.ready else "Proxy"
    else:
        mode = sks["spec"].get("mode", "Proxy") if sks else "Proxy"
    reference = {"apiVersion": pa.target.api_version, "kind": pa.target.kind, "name": pa.target.name}
    # 0 activators are all of them, as with Knative's HPA class.
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
            # Knative finds the Services of a revision by the labels that the ServerlessService hands on.
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
    """A policy needs samples, and those need requests, which a revision gets when min-scale are Ready: so the
    bounds cannot wait for the policy. Only once it has looked whether the target is its own.
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
    # With the uid, so that another of the same name that came meanwhile is left alone.
    return Patch(path, {"metadata": {"uid": metadata["uid"]}, **body})


def _holds(have: Any, wanted: Any) -> bool:
    """Whether a merge patch with `wanted` would change nothing."""
    if isinstance(have, dict) and isinstance(wanted, dict):
        return all(key in have and _holds(have[key], value) for key, value in wanted.items())
    return bool(have == wanted)
