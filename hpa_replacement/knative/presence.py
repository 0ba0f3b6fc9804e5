"""Decides whether a revision has pods: to zero when nobody asks for it, back at the first request. Pure.

The order is Knative's own (serving v0.50.0, pkg/reconciler/autoscaling/kpa/scaler.go): after `window` without
requests the condition Active becomes False, and the ServerlessService puts the activators in the path. Once
they have been there for the grace period, so that every proxy knows, the pods go. A request that waits in an
activator brings them back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hpa_replacement.knative.config_autoscaler import AutoscalerConfig
from hpa_replacement.knative.pod_autoscaler import PodAutoscaler
from surgekit.kube.conditions import unix_s

__all__ = [
    "Condition",
    "Demand",
    "Observed",
    "Presence",
    "RevisionView",
    "condition_of",
    "condition_since_s",
    "presence_of",
]

Json = dict[str, Any]
NO_TRAFFIC = "NoTraffic"
# Reasons of the policy's condition Deciding while the user, the budget or another autoscaler sets replicas.
_HANDS_OFF = frozenset({"AnotherAutoscaler", "Paused", "BudgetSpent"})
_UNSEEN = "its KneePolicy has not been looked at yet"
# Pods go only if all activators were read within so many seconds. They come back if one was not for this
# long: its requests cannot be seen.
_FRESH_S, _BLIND_S = 10.0, 60.0


@dataclass(frozen=True, slots=True)
class Observed:
    """The scale target as observed."""

    replicas: int
    ready: int


@dataclass(frozen=True, slots=True)
class Demand:
    """Requests of one revision in the activators."""

    requests: int
    age_s: float  # of the oldest activator's answer; infinite if one has never answered
    blind_s: float  # for how long one of them has not answered
    problem: str = ""  # why


@dataclass(frozen=True, slots=True)
class RevisionView:
    """A PodAutoscaler and the objects of its name, as observed at one moment."""

    pod_autoscaler: Json
    sks: Json | None  # the ServerlessService; like the policy, it may have another owner
    policy: Json | None
    target: Observed | str  # the scale target, or why it could not be observed
    demand: Demand
    config: AutoscalerConfig
    now_s: float
    inputs_age_s: Mapping[str, float] = field(default_factory=dict)  # by source

    @property
    def desired(self) -> int | None:
        """The replicas the policy asks for."""
        desired: int | None = ((self.policy or {}).get("status") or {}).get("targetReplicas")
        return desired


@dataclass(frozen=True, slots=True)
class Condition:
    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Presence:
    active: Condition  # of the PodAutoscaler
    proxied: bool  # whether requests go through the activators
    replicas: int | None = None  # to set now; None: leave them
    why: str = ""
    again_s: float = math.inf  # after which time alone may have changed the answer

    @property
    def asleep(self) -> bool:
        return self.active.reason == NO_TRAFFIC


class _Awake(NamedTuple):
    """Why it must have pods; for how long at least, if time alone can change that."""

    because: str
    for_s: float = math.inf


def presence_of(pa: PodAutoscaler, view: RevisionView) -> Presence:
    if isinstance(view.target, str):
        proxied = view.sks is None or view.sks["spec"].get("mode") != "Serve"
        return Presence(Condition("Unknown", "TargetNotScalable", view.target), proxied)
    if awake := _why_awake(pa, view, view.target):
        return _awake(pa, view, view.target, awake)
    return _asleep(pa, view, view.target)


def _why_awake(pa: PodAutoscaler, view: RevisionView, target: Observed) -> _Awake | None:
    demand, active = view.demand, condition_of(view.pod_autoscaler, "Active")
    at_zero = active.reason == NO_TRAFFIC and target.replicas == 0
    if pa.awake_because:
        return _Awake(pa.awake_because)
    if held := _held_by(view.policy):
        # Each change of its spec makes it unseen for a moment: that wakes nobody.
        return None if at_zero and held == _UNSEEN and not demand.requests else _Awake(held)
    if demand.requests:
        return _Awake(f"{demand.requests} requests are in the activators")
    if demand.blind_s > _BLIND_S if at_zero else demand.age_s > _FRESH_S:
        return _Awake(_unknown(demand))
    if at_zero or (target.replicas == 0 and pa.initial == 0):
        return None
    return _why_not_idle(pa, view, active)


def _why_not_idle(pa: PodAutoscaler, view: RevisionView, active: Condition) -> _Awake | None:
    if condition_of(view.pod_autoscaler, "ScaleTargetInitialized").status != "True":
        return _Awake("it has not been deployed yet")
    since_s = unix_s(((view.policy or {}).get("status") or {}).get("idleSince"))
    if since_s is None:
        return _Awake("it serves requests, or there is no sample")
    if active.reason == NO_TRAFFIC:
        return None
    # Samples from before it was woken say nothing about what it was woken for.
    active_s = condition_since_s(view.pod_autoscaler, "Active")
    if active.status != "True" or active_s is None:
        return _Awake("it is being started")
    left_s = pa.window_s - (view.now_s - max(since_s, active_s))
    return _Awake(f"it has been idle for less than {pa.window_s:g} s", left_s) if left_s > 0 else None


def _awake(pa: PodAutoscaler, view: RevisionView, target: Observed, awake: _Awake) -> Presence:
    """Scale to the bounds at once, without waiting for a decision of the policy.

    A policy needs samples, samples need requests, and a revision gets requests once min-scale pods are Ready.
    """
    held = _held_by(view.policy)
    if target.ready == 0:
        waits = f"no pod of {pa.target.name} is Ready"
        active = Condition("Unknown", "Queued", f"{waits} ({held})" if held in _HANDS_OFF else waits)
    elif not pa.awake_because and view.demand.age_s > _FRESH_S:
        active = Condition("True", "NoScaleToZero", _unknown(view.demand))
    else:
        active = Condition("True")
    proxied = pa.always_proxied or target.ready == 0
    replicas = min(max(target.replicas, pa.low), pa.high)
    # First the policy must have checked that no other autoscaler scales the target.
    if held or replicas == target.replicas:
        return Presence(active, proxied, again_s=awake.for_s)
    why = f"{target.replicas} replicas are outside {pa.low}..{pa.high}"
    return Presence(active, proxied, replicas, f"{why}: {awake.because}" if target.replicas == 0 else why)


def _unknown(demand: Demand) -> str:
    return f"the activators' requests are not known: {demand.problem}"


def _asleep(pa: PodAutoscaler, view: RevisionView, target: Observed) -> Presence:
    active = Condition("False", NO_TRAFFIC, "The target is not receiving traffic.")
    inactive_s = _seconds_since(view, view.pod_autoscaler, "Active", "False")
    proxied_s = _seconds_since(view, view.sks, "ActivatorEndpointsPopulated", "True")
    mode = view.sks["spec"].get("mode") if view.sks else ""
    if target.replicas == 0 or inactive_s is None or proxied_s is None or mode != "Proxy":
        return Presence(active, True)  # a change of these objects brings us back
    left_s = max(pa.retention_s - inactive_s, view.config.scale_to_zero_grace_period_s - proxied_s)
    if left_s > 0:
        return Presence(active, True, again_s=left_s)
    why = f"idle for {pa.window_s:g} s, and the activators have been in the path for {proxied_s:.0f} s"
    return Presence(active, True, 0, why)


def _seconds_since(view: RevisionView, obj: Json | None, kind: str, status: str) -> float | None:
    """How long the condition has had this status; None: it has another."""
    since_s = condition_since_s(obj, kind)
    return view.now_s - since_s if since_s is not None and condition_of(obj, kind).status == status else None


def _held_by(policy: Json | None) -> str:
    """Why replicas are not ours to set; empty if they are."""
    if policy is None:
        return _UNSEEN
    deciding = condition_of(policy, "Deciding")
    seen = (policy.get("status") or {}).get("observedGeneration") == policy["metadata"].get("generation")
    if not seen or not deciding.reason:
        return _UNSEEN
    return deciding.reason if deciding.reason in _HANDS_OFF else ""


def condition_of(obj: Json | None, kind: str) -> Condition:
    known = _condition(obj, kind)
    return Condition(known.get("status", "Unknown"), known.get("reason", ""), known.get("message", ""))


def condition_since_s(obj: Json | None, kind: str) -> float | None:
    return unix_s(_condition(obj, kind).get("lastTransitionTime"))


def _condition(obj: Json | None, kind: str) -> Json:
    conditions = ((obj or {}).get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == kind), {})
