"""Builds the status of a PodAutoscaler. Pure.

The conditions are Knative's (serving v0.50.0, pkg/apis/autoscaling/v1alpha1/pa_lifecycle.go): Ready is True
when Active, SKSReady and ScaleTargetInitialized are, and False when one of them is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpa_replacement.knative.pod_autoscaler import PodAutoscaler
from hpa_replacement.knative.presence import Condition, Observed, Presence, RevisionView, condition_of
from surgekit.kube.conditions import stamp

__all__ = ["status_if_refused", "status_of"]

Json = dict[str, Any]
_DEPENDENTS = ("Active", "SKSReady", "ScaleTargetInitialized")


def status_of(pa: PodAutoscaler, view: RevisionView, presence: Presence) -> Json:
    before, sks, target = view.pod_autoscaler, view.sks, view.target
    served = (sks or {}).get("status") or {}
    current = served.get("observedGeneration") == (sks or {"metadata": {}})["metadata"].get("generation")
    sks_ready = current and condition_of(sks, "Ready").status == "True"
    initialized = condition_of(before, "ScaleTargetInitialized")
    if isinstance(target, Observed) and sks_ready and target.ready >= pa.initial:
        initialized = Condition("True")  # for good
    elif initialized.status != "True":
        initialized = Condition(
            "Unknown", "Deploying", f"waiting for {pa.initial} Ready pods and the service"
        )
    conditions = {
        "Active": presence.active,
        "SKSReady": Condition("True")
        if sks_ready
        else Condition("Unknown", "NotReady", "SKS Services are not ready yet"),
        "ScaleTargetInitialized": initialized,
    }
    status = {
        "observedGeneration": pa.generation,
        "serviceName": served.get("serviceName", ""),
        "metricsServiceName": served.get("privateServiceName", ""),
        "conditions": _written(before, conditions, view.now_s),
    }
    if isinstance(target, Observed):  # else keep the last known values
        scale = target.replicas if view.desired is None else view.desired
        desired = 0 if presence.asleep else min(max(scale, pa.low), pa.high)
        status |= {"desiredScale": desired, "actualScale": target.ready}
    return status


def status_if_refused(before: Json, reason: str, message: str, now_s: float) -> Json:
    """Active is False, as Knative's own classes report objects they do not own; the rest stays."""
    status = before.get("status") or {}
    conditions = {kind: condition_of(before, kind) for kind in _DEPENDENTS}
    conditions["Active"] = Condition("False", reason, message)
    return {
        "observedGeneration": before["metadata"].get("generation", 0),
        "serviceName": status.get("serviceName", ""),
        "metricsServiceName": status.get("metricsServiceName", ""),
        "conditions": _written(before, conditions, now_s),
    }


def _written(before: Json, conditions: Mapping[str, Condition], now_s: float) -> list[Json]:
    """Sorted by type, with Ready; lastTransitionTime changes only with the status."""
    not_true = [c for kind in _DEPENDENTS if (c := conditions[kind]).status != "True"]
    not_true.sort(key=lambda c: c.status != "False")
    known = {c["type"]: c for c in (before.get("status") or {}).get("conditions") or []}
    for kind, condition in {**conditions, "Ready": not_true[0] if not_true else Condition("True")}.items():
        old = known.get(kind, {})
        since = old.get("lastTransitionTime") if old.get("status") == condition.status else None
        texts = {"reason": condition.reason, "message": condition.message}
        known[kind] = {
            "type": kind,
            "status": condition.status,
            **{k: v for k, v in texts.items() if v},
            "lastTransitionTime": since or stamp(now_s),
        }
    return [known[kind] for kind in sorted(known)]
