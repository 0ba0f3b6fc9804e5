"""Plans the writes that give a PodAutoscaler of our class its KneePolicy, ServerlessService and status.

Pure and level-based: a plan has only what differs, so it is empty once everything is in place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hpa_replacement.knative.pod_autoscaler import (
    POD_AUTOSCALERS,
    PodAutoscaler,
    PodAutoscalerError,
    follows_our_metric,
    is_ours,
    read,
)
from hpa_replacement.knative.pod_autoscaler_status import status_if_refused, status_of
from hpa_replacement.knative.presence import Presence, RevisionView, presence_of
from hpa_replacement.kneepolicy import KNEE_POLICIES
from surgekit.decision import Decision
from surgekit.kube.api_path import Resource
from surgekit.kube.scale_target import ScaleTarget

__all__ = ["SKS_PATH", "Create", "Patch", "Plan", "ScaleTo", "Step", "controlled", "plan"]

Json = dict[str, Any]
_SERVERLESS_SERVICES = Resource("networking.internal.knative.dev/v1alpha1", "serverlessservices")
SKS_PATH = _SERVERLESS_SERVICES.path()


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


@dataclass(frozen=True, slots=True)
class Plan:
    steps: tuple[Step, ...] = ()
    again_s: float = math.inf  # after which time alone may have changed the plan


def plan(view: RevisionView, default_high: int) -> Decision[Plan]:
    """Not valid: the PodAutoscaler is refused. If it is ours, its status says so."""
    obj = view.pod_autoscaler
    try:
        planned = _plan(view, default_high)
    except _Refused as refused:
        steps: tuple[Step, ...] = ()
        if is_ours(obj):
            steps = _status(obj, status_if_refused(obj, refused.reason, str(refused), view.now_s))
        return Decision(Plan(steps), (str(refused),), view.inputs_age_s, valid=False)
    return Decision(planned, tuple(step.reason for step in planned.steps), view.inputs_age_s)


class _Refused(Exception):
    """Why we do not scale a PodAutoscaler: the condition's reason, and a message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def _plan(view: RevisionView, default_high: int) -> Plan:
    obj, policy, sks = view.pod_autoscaler, view.policy, view.sks
    if obj["metadata"].get("deletionTimestamp"):
        return Plan()  # the garbage collector deletes the objects it owns
    if not is_ours(obj) and not follows_our_metric(obj):
        # If it has a policy, its class was ours: two autoscalers must not fight over one target.
        if policy and controlled(policy, obj) and policy["spec"].get("mode") != "off":
            return Plan(
                (_patch(KNEE_POLICIES, policy, {"spec": {"mode": "off"}}, "its class is no longer ours"),)
            )
        return Plan()
    try:
        pa = read(obj, default_high, view.config)
    except PodAutoscalerError as error:
        raise _Refused("Invalid", str(error)) from error
    made_by_us = {"KneePolicy": policy} | ({"ServerlessService": sks} if is_ours(obj) else {})
    for kind, other in made_by_us.items():
        if other and not controlled(other, obj):
            raise _Refused("NotOwned", f"there is a {kind} {pa.name} that this PodAutoscaler does not own")
    if follows_our_metric(obj):
        return Plan(_keep(obj, KNEE_POLICIES, "KneePolicy", policy, _policy_spec(pa, "metrics")))
    presence = presence_of(pa, view)
    steps = (
        *_keep(obj, KNEE_POLICIES, "KneePolicy", policy, _policy_spec(pa, "scale")),
        *_keep(obj, _SERVERLESS_SERVICES, "ServerlessService", sks, _sks_spec(pa, sks, presence)),
        # First the status: woken by a request that has ended since, it must not be taken for asleep.
        *_status(obj, status_of(pa, view, presence)),
        *_scale(pa, presence),
    )
    return Plan(steps, presence.again_s)


def controlled(obj: Json, by: Json) -> bool:
    owners = obj["metadata"].get("ownerReferences") or []
    return any(o.get("controller") and o["uid"] == by["metadata"]["uid"] for o in owners)


def _policy_spec(pa: PodAutoscaler, via: str) -> Json:
    """The fields we own; users may set the others (thresholds, search, interval, paused)."""
    target = pa.target
    return {
        "scaleTargetRef": {"apiVersion": target.api_version, "kind": target.kind, "name": target.name},
        "mode": "enforce",
        "via": via,
        "minReplicas": pa.low,
        "maxReplicas": pa.high,
        "metrics": {"preset": "knative", "function": pa.name},
    }


def _sks_spec(pa: PodAutoscaler, sks: Json | None, presence: Presence) -> Json:
    reference = {"apiVersion": pa.target.api_version, "kind": pa.target.kind, "name": pa.target.name}
    mode = "Proxy" if presence.proxied else "Serve"
    # 0 means all activators, as in Knative's HPA class. Its webhook drops a 0.
    subset = {"numActivators": 0} if sks and sks["spec"].get("numActivators") else {}
    return {"mode": mode, "objectRef": reference, "protocolType": pa.protocol, **subset}


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


def _scale(pa: PodAutoscaler, presence: Presence) -> tuple[Step, ...]:
    if presence.replicas is None:
        return ()
    return (ScaleTo(pa.target, presence.replicas, presence.why),)


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
