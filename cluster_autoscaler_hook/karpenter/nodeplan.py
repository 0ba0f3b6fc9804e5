"""The NodePlan object: the last plan, why it is so, what it costs. Also the note a restart goes on from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from cluster_autoscaler_hook.karpenter.model import (
    ClusterView,
    Offer,
    Plan,
    PlannedNode,
    Shortage,
    WaitingPod,
)
from cluster_autoscaler_hook.karpenter.pending_pods import grouped
from cluster_autoscaler_hook.karpenter.settings import Settings
from surgekit.kube.api_path import Resource
from surgekit.process.modes import Mode

__all__ = [
    "NODE_PLANS",
    "PATH",
    "Phase",
    "intended",
    "live_fields",
    "new_object",
    "plan_fields",
    "time_text",
    "unavailable_of",
]

NODE_PLANS = Resource("surgekit.dev/v1alpha1", "nodeplans")
PATH = NODE_PLANS.path()
Json = dict[str, Any]
_REASONS = 20  # of a solver that tells more, the first
_KINDS = 100  # tenants can make up any number


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


def plan_fields(plan: Plan, phase: str, waiting: Iterable[WaitingPod]) -> Json:
    """What was decided: stays until the next plan."""
    names = {pod.kind.id: f"{pod.namespace}/{pod.name}" for pod in waiting}
    pods: Counter[str] = Counter()
    for node in plan.nodes:
        pods.update(node.pods)
    return {
        "phase": phase,
        "plan": plan.id,
        "costPerHour": round(plan.cost_per_hour, 6),
        "lowerBoundPerHour": round(plan.lower_bound_per_hour, 6),
        "plannedNodes": len(plan.nodes),
        "nodes": [
            {
                "claim": node.claim,
                "instanceClass": node.instance_class,
                "zone": node.zone,
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
            for kind in sorted(plan.kinds.values(), key=lambda kind: (-pods[kind.id], kind.id))[:_KINDS]
        ],
        "shortages": [{"kind": s.kind, "pods": s.pods, "reason": s.reason} for s in plan.shortages[:_KINDS]],
        "reasons": list(plan.reasons[:_REASONS]),
    }


def live_fields(
    view: ClusterView,
    placed: Collection[str],
    shortages: Collection[Shortage],
    known: Mapping[str, Offer],
    understood: Collection[str],
    unavailable: Mapping[str, float],
    settings: Settings,
    currency: str,
    blind: str,
    trouble: str,
    now: float,
) -> Json:
    """What holds now. `placed`: uids of the pods that a node of ours takes. `shortages`: of the last plan.
    `unavailable`: until when (Unix time) classes are left out. `blind`: why nothing can be planned at all.
    `trouble`: why there is no last plan."""
    running = [known[c.instance_class] for c in view.claims if c.instance_class in known and not c.deleting]
    short = {shortage.kind: shortage.reason for shortage in shortages}
    shadow = settings.mode is not Mode.ENFORCE

    def reason(pod: WaitingPod) -> str:
        if pod.uid in placed:
            return "its node is on its way"
        return short.get(pod.kind.id) or ("planned for; others serve it" if shadow else "the next plan")

    waiting = (*grouped((pod, reason(pod)) for pod in view.waiting), *view.held)
    return {
        "mode": str(settings.mode),
        "gating": not shadow and not blind,
        "understoodLabels": sorted(understood),
        "currency": currency,
        "runningCostPerHour": round(sum(offer.price_per_hour for offer in running), 6),
        "runningNodes": len(running),
        "waitingPods": sum(group.pods for group in waiting),
        "waiting": [asdict(group) for group in waiting],
        "leftPods": sum(group.pods for group in view.left),
        "left": [asdict(group) for group in view.left],
        "unavailable": [
            {"instanceClass": name, "until": time_text(until)} for name, until in sorted(unavailable.items())
        ],
        "observedTime": time_text(now),
        "conditions": [_condition(view, placed, short, blind or trouble, now)],
    }


def _condition(
    view: ClusterView, placed: Collection[str], short: Mapping[str, str], trouble: str, now: float
) -> Json:
    unserved = [p for p in view.waiting if p.uid not in placed and p.kind.id in short]
    if trouble:
        status, reason, message = "False", "Trouble", trouble
    elif unserved:
        status, reason = "False", "Shortage"
        message = f"{len(unserved)} pods not served: {short[unserved[0].kind.id]}"
    elif view.waiting:
        status, reason, message = "True", "Planned", f"{len(view.waiting)} pods wait for their nodes"
    else:
        status, reason, message = "True", "NothingToDo", ""
    return {
        "type": "Served",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": time_text(now),
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
                str(node.get("zone") or ""),
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


def time_text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
