"""The NodePlan object: the last plan, its reasons and its price. A restarted hook continues from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from cluster_autoscaler_hook.karpenter.model import (
    ClusterView,
    Offer,
    Plan,
    PlannedNode,
    WaitingPod,
)
from cluster_autoscaler_hook.karpenter.pending_pods import group_by_reason
from cluster_autoscaler_hook.karpenter.settings import Settings
from surgekit.decision import Decision
from surgekit.kube.api_path import Resource
from surgekit.process.modes import Mode

__all__ = [
    "NODE_PLANS",
    "PATH",
    "Phase",
    "Report",
    "live_fields",
    "new_object",
    "plan_fields",
    "time_text",
    "unavailable_classes",
    "unfinished_nodes",
]

NODE_PLANS = Resource("surgekit.dev/v1alpha1", "nodeplans")
PATH = NODE_PLANS.path()
Json = dict[str, Any]
_MAX_REASONS = 20
_MAX_KINDS = 100  # tenants can make up any number


class Phase:
    """How far the plan has been carried out."""

    LAUNCHING = "Launching"  # not all claims are created yet; a restarted hook continues here
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


def plan_fields(decision: Decision[Plan], phase: str, waiting: Iterable[WaitingPod]) -> Json:
    """The part of the status that describes the last plan; it stays until the next one."""
    plan = decision.action
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
            for kind in sorted(plan.kinds.values(), key=lambda kind: (-pods[kind.id], kind.id))[:_MAX_KINDS]
        ],
        "shortages": [
            {"kind": s.kind, "pods": s.pods, "reason": s.reason} for s in plan.shortages[:_MAX_KINDS]
        ],
        "reasons": list(decision.reasons[:_MAX_REASONS]),
    }


@dataclass(frozen=True)
class Report:
    """What the hook knows after one step."""

    view: ClusterView
    placed: Collection[str] = ()  # uids of the pods for which there is room on our nodes
    last_plan: Plan = Plan()  # noqa: RUF009  # frozen
    known: Mapping[str, Offer] = field(default_factory=dict)  # the catalogue's classes, by name
    understood_labels: Collection[str] = ()
    unavailable: Mapping[str, float] = field(default_factory=dict)  # class -> left out until (Unix time)
    currency: str = ""
    catalogue_error: str = ""  # nothing can be planned at all
    plan_error: str = ""  # why the last plan failed
    size_requests: Sequence[Json] = ()  # sizes that functions are asked for


def live_fields(report: Report, settings: Settings, now: float) -> Json:
    """The part of the status that describes the present."""
    view, known = report.view, report.known
    running = [known[c.instance_class] for c in view.claims if c.instance_class in known and not c.deleting]
    shortage_of = {shortage.kind: shortage.reason for shortage in report.last_plan.shortages}
    enforce = settings.mode is Mode.ENFORCE

    def reason(pod: WaitingPod) -> str:
        if pod.uid in report.placed:
            return "its node is being prepared"
        next_step = "the next plan" if enforce else "planned for; others serve it"
        return shortage_of.get(pod.kind.id) or next_step

    waiting = (*group_by_reason((pod, reason(pod)) for pod in view.waiting), *view.held)
    return {
        "mode": str(settings.mode),
        "gating": enforce and not report.catalogue_error,
        "understoodLabels": sorted(report.understood_labels),
        "currency": report.currency,
        "runningCostPerHour": round(sum(offer.price_per_hour for offer in running), 6),
        "runningNodes": len(running),
        "waitingPods": sum(group.pods for group in waiting),
        "waiting": [asdict(group) for group in waiting],
        "leftPods": sum(group.pods for group in view.left_to_karpenter),
        "left": [asdict(group) for group in view.left_to_karpenter],
        "unavailable": [
            {"instanceClass": name, "until": time_text(until)}
            for name, until in sorted(report.unavailable.items())
        ],
        "sizeRequests": list(report.size_requests),
        "observedTime": time_text(now),
        "conditions": [_condition(report, shortage_of, now)],
    }


def _condition(report: Report, shortage_of: Mapping[str, str], now: float) -> Json:
    waiting = report.view.waiting
    unserved = [p for p in waiting if p.uid not in report.placed and p.kind.id in shortage_of]
    if error := report.catalogue_error or report.plan_error:
        status, reason, message = "False", "PlanFailed", error
    elif unserved:
        status, reason = "False", "Shortage"
        message = f"{len(unserved)} pods not served: {shortage_of[unserved[0].kind.id]}"
    elif waiting:
        status, reason, message = "True", "Planned", f"{len(waiting)} pods wait for their nodes"
    else:
        status, reason, message = "True", "NothingToDo", ""
    return {
        "type": "Served",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": time_text(now),
    }


def unfinished_nodes(obj: Json) -> tuple[PlannedNode, ...]:
    """The nodes of a plan whose claims were being created when the object was written; else none."""
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


def unavailable_classes(obj: Json, now: float) -> dict[str, float]:
    """Classes that could not be rented, and until when they are left out: longer than a restart takes."""
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
