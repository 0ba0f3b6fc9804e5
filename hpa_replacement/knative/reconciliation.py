"""Plans the writes that give a PodAutoscaler of our class its KneePolicy, ServerlessService and status.

Pure and level-based: a plan has only what differs, so it is empty once everything is in place.
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
    RevisionView,
    condition_of,
    status_if_refused,
    status_of,
)
from hpa_replacement.kneepolicy import KNEE_POLICIES
from surgekit.decision import Decision
from surgekit.kube.api_path import Resource
from surgekit.kube.scale_target import ScaleTarget

__all__ = ["SKS_PATH", "Create", "Patch", "ScaleTo", "Step", "controlled", "plan"]

Json = dict[str, Any]
_SERVERLESS_SERVICES = Resource("networking.internal.knative.dev/v1alpha1", "serverlessservices")
SKS_PATH = _SERVERLESS_SERVICES.path()
# Reasons of the policy's condition Deciding while the user, the budget or another autoscaler sets replicas.
_HANDS_OFF = frozenset({"AnotherAutoscaler", "Paused", "BudgetSpent"})


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    body: Json
    reason: str


@dataclass(frozen=True, slots=True)
class Patch:
    path: str
    body: Json  # a merge patch
    reason: str


@dataclass(frozen=True, slots=True)
class ScaleTo:
    target: ScaleTarget
    replicas: int
    reason: str


Step = Create | Patch | ScaleTo


def plan(view: RevisionView, default_high: int) -> Decision[tuple[Step, ...]]:
    """Not valid: the PodAutoscaler is refused, and the only step writes that into its status."""
    try:
        steps = _steps(view, default_high)
    except _Refused as refused:
        obj = view.pod_autoscaler
        status = status_if_refused(obj, refused.reason, str(refused), view.now_s)
        return Decision(_status(obj, status), (str(refused),), view.inputs_age_s, valid=False)
    return Decision(steps, tuple(step.reason for step in steps), view.inputs_age_s)


class _Refused(Exception):
    """Why we do not scale a PodAutoscaler of our class: the condition's reason, and a message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def _steps(view: RevisionView, default_high: int) -> tuple[Step, ...]:
    obj, policy, sks = view.pod_autoscaler, view.policy, view.sks
    if obj["metadata"].get("deletionTimestamp"):
        return ()  # the garbage collector deletes the objects it owns
    if not is_ours(obj):
        # If it has a policy, its class was ours: two autoscalers must not fight over one target.
        if policy and controlled(policy, obj) and policy["spec"].get("mode") != "off":
            return (_patch(KNEE_POLICIES, policy, {"spec": {"mode": "off"}}, "its class is no longer ours"),)
        return ()
    try:
        pa = read(obj, default_high)
    except PodAutoscalerError as error:
        raise _Refused("Invalid", str(error)) from error
    for kind, other in (("KneePolicy", policy), ("ServerlessService", sks)):
        if other and not controlled(other, obj):
            raise _Refused("NotOwned", f"there is a {kind} {pa.name} that this PodAutoscaler does not own")
    return (
        *_keep(obj, KNEE_POLICIES, "KneePolicy", policy, _policy_spec(pa)),
        *_keep(obj, _SERVERLESS_SERVICES, "ServerlessService", sks, _sks_spec(pa, sks, view.target)),
        *_within_bounds(pa, policy, view.target),
        *_status(obj, status_of(pa, view)),
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
        return (_patch(resource, have, {"spec": spec}, f"the {kind} differs"),)
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
    return (Create(resource.path(metadata["namespace"]), body, f"there is no {kind}"),)


def _within_bounds(pa: PodAutoscaler, policy: Json | None, target: Observed | str) -> tuple[Step, ...]:
    """Scale to the bounds at once, without waiting for a decision of the policy.

    A policy needs samples, samples need requests, and a revision gets requests once min-scale pods are Ready.
    But first the policy must have checked that no other autoscaler scales the target.
    """
    if policy is None or isinstance(target, str):
        return ()
    seen = (policy.get("status") or {}).get("observedGeneration") == policy["metadata"].get("generation")
    deciding = condition_of(policy, "Deciding")
    replicas = min(max(target.replicas, pa.low), pa.high)
    if not seen or not deciding.reason or deciding.reason in _HANDS_OFF or replicas == target.replicas:
        return ()
    why = f"{target.replicas} replicas are outside {pa.low}..{pa.high}"
    return (ScaleTo(pa.target, replicas, why),)


def _status(obj: Json, status: Json) -> tuple[Step, ...]:
    if _holds(obj.get("status") or {}, status):
        return ()
    return (_patch(POD_AUTOSCALERS, obj, {"status": status}, "the status differs", "status"),)


def _patch(resource: Resource, obj: Json, body: Json, reason: str, subresource: str | None = None) -> Patch:
    metadata = obj["metadata"]
    path = resource.path(metadata["namespace"], metadata["name"], subresource)
    # So that the API server refuses if the name now belongs to a new object. It ignores a uid in a status.
    guard = "resourceVersion" if subresource else "uid"
    return Patch(path, {"metadata": {guard: metadata[guard]}, **body}, reason)


def _holds(have: Any, wanted: Any) -> bool:
    """Whether a merge patch with `wanted` would change nothing."""
    if isinstance(have, dict) and isinstance(wanted, dict):
        return all(key in have and _holds(have[key], value) for key, value in wanted.items())
    return bool(have == wanted)
