"""The NodePlan object: the last plan, why it is so, what it costs. Also the note a restart goes on from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cluster_autoscaler_hook.karpenter.model import ClusterView, Offer, Plan, PlannedNode
from cluster_autoscaler_hook.karpenter.settings import Settings

__all__ = ["PATH", "Phase", "intended", "new_object", "status_of", "unavailable_of"]

PATH = "/apis/surgekit.dev/v1alpha1/nodeplans"
Json = dict[str, Any]
_REASONS = 20  # of a solver that tells more, the first


class Phase:
    """How far the plan is."""

    LAUNCHING = "Launching"  # written down, claims not all made yet: a restart goes on with it
    LAUNCHED = "Launched"
    SHADOW = "Shadow"
    IDLE = "Idle"


def new_object(settings: Settings) -> Json:
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "NodePlan",
        "metadata": {"name": settings.pool},
        "spec": {},
    }


def status_of(
    plan: Plan,
    phase: str,
    view: ClusterView,
    known: Mapping[str, Offer],
    unavailable: Mapping[str, float],
    settings: Settings,
    currency: str,
    trouble: str,
    now: float,
) -> Json:
    """All of the status; `unavailable` has until when (Unix time) classes are left out."""
    names = {pod.kind.id: f"{pod.namespace}/{pod.name}" for pod in reversed(view.waiting)}
    pods: Counter[str] = Counter()
    for node in plan.nodes:
        pods.update(node.pods)
    running = [known[c.instance_class] for c in view.claims if c.instance_class in known and not c.deleting]
    return {
        "mode": str(settings.mode),
        "phase": phase,
        "plan": plan.id,
        "currency": currency,
        "costPerHour": round(plan.cost_per_hour, 6),
        "lowerBoundPerHour": round(plan.lower_bound_per_hour, 6),
        "runningCostPerHour": round(sum(offer.price_per_hour for offer in running), 6),
        "runningNodes": len(running),
        "waitingPods": len(view.waiting),
        "plannedNodes": len(plan.nodes),
        "nodes": [
            {
                "claim": node.claim,
                "instanceClass": node.instance_class,
                "pricePerHour": node.price_per_hour,
                "pods": dict(sorted(node.pods.items())),
            }
            for node in plan.nodes
        ],
        "kinds": [
            {
                "id": kind.id,
                "cpuMillicores": kind.cpu_millicores,
                "memoryBytes": kind.memory_bytes,
                "planned": pods[kind.id],
                "example": names.get(kind.id, ""),
            }
            for kind in sorted(plan.kinds.values(), key=lambda kind: kind.id)
        ],
        "shortages": [{"kind": s.kind, "pods": s.pods, "reason": s.reason} for s in plan.shortages],
        "left": [{"reason": reason, "pods": count} for reason, count in sorted(view.left.items())],
        "unavailable": [
            {"instanceClass": name, "until": _time(until)} for name, until in sorted(unavailable.items())
        ],
        "reasons": list(plan.reasons[:_REASONS]),
        "observedTime": _time(now),
        "conditions": [_condition(plan, trouble, now)],
    }


def _condition(plan: Plan, trouble: str, now: float) -> Json:
    if trouble:
        status, reason, message = "False", "Trouble", trouble
    elif plan.shortages:
        short = sum(s.pods for s in plan.shortages)
        status, reason = "False", "Shortage"
        message = f"{short} pods not served: {plan.shortages[0].reason}"
    else:
        status, reason = "True", "Planned" if plan.nodes else "NothingToDo"
        message = f"{len(plan.nodes)} nodes at {plan.cost_per_hour:.4f} an hour" if plan.nodes else ""
    return {
        "type": "Served",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": _time(now),
    }


def intended(obj: Json) -> tuple[PlannedNode, ...]:
    """The nodes of a plan that was being carried out when the object was written; else none."""
    status = obj.get("status") or {}
    if status.get("phase") != Phase.LAUNCHING:
        return ()
    try:
        return tuple(
            PlannedNode(
                node["claim"],
                node["instanceClass"],
                float(node["pricePerHour"]),
                dict(node.get("pods") or {}),
            )
            for node in status.get("nodes") or ()
        )
    except (KeyError, TypeError, ValueError):
        return ()


def unavailable_of(obj: Json, now: float) -> dict[str, float]:
    """Classes that could not be had, and until when they are left out: an ICE outlives our restart."""
    found = {}
    for entry in (obj.get("status") or {}).get("unavailable") or ():
        try:
            until = datetime.fromisoformat(entry["until"]).timestamp()
            if until > now:
                found[str(entry["instanceClass"])] = until
        except (KeyError, TypeError, ValueError):
            continue
    return found


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
