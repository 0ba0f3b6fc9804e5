"""A ComboFunc's status. Each function returns the `status` of a merge patch, or a part of it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from combofunc.planner.model import Node, Plan, Size
from combofunc.reconcile.spec import ComboFunc, SpecError
from surgekit.kube.conditions import Condition, conditions, stamp
from surgekit.process.modes import Mode

__all__ = [
    "REASONS", "Facts", "Pods", "invalid_status", "plan_status", "planned", "ready", "resized",
    "sizes_usable", "status_of", "target_known",
]  # fmt: skip

Json = dict[str, Any]
# Reasons by condition; the CRD explains them to users.
REASONS: Mapping[str, tuple[str, ...]] = {
    "TargetKnown": ("Spec", "Replicas", "Collector", "SpecIgnored", "NoData", "InvalidSpec"),
    "SizesUsable": ("Usable", "TooLarge", "NoNode", "InvalidSpec"),
    "Planned": ("Planned", "Shadow", "Rolling", "Shortage", "AwaitingNodes", "NoTarget", "Paused",
                "PodsUnreadable", "PlannerFailed", "InvalidSpec"),
    "Ready": ("Ready", "Rolling", "Progressing", "Shortage", "Failing", "Shadow", "Paused", "NoTarget",
              "InvalidSpec"),
    "Resized": ("Resized", "MemoryInUse", "InvalidSpec"),
}  # fmt: skip
# Longest list of a plan in the status: people read it, and an object has at most 1.5 MiB.
_LISTED = 50


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods of one size: how many there are, and how many serve."""

    replicas: int = 0
    ready: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """The numbers of a status."""

    target: int | None
    plan: Plan | None  # the last one
    planned_at_s: float
    pods: Mapping[str, Pods]  # by the size they have now
    ready_concurrency: int


def status_of(
    function: ComboFunc, before: Json, facts: Facts, said: Sequence[Condition], now_s: float
) -> Json:
    """`before`: the status so far. `said`: conditions made by the functions below."""
    plan, pods = facts.plan, facts.pods
    counts = plan.replicas if plan else {}
    offered = [size.name for size in function.sizes]
    names = offered + sorted({*pods, *counts} - set(offered))
    return {
        "observedGeneration": function.generation,
        "selector": function.selector,
        "targetConcurrency": facts.target,
        "plannedConcurrency": plan.concurrency if plan else None,
        "readyConcurrency": facts.ready_concurrency,
        "shortage": plan.shortage if plan else None,
        "sizes": [
            {
                "name": name,
                "planned": counts.get(name, 0),
                "replicas": pods.get(name, Pods()).replicas,
                "ready": pods.get(name, Pods()).ready,
            }
            for name in names
        ],
        "plan": plan_status(plan, facts.planned_at_s) if plan else None,
        "conditions": conditions(before, said, function.generation, now_s),
    }


def invalid_status(obj: Json, error: SpecError, now_s: float) -> Json:
    """For a spec that cannot be read. The rest of the status and all pods stay as they are."""
    said = [Condition(type_, False, "InvalidSpec", f"{error}; pods stay as they are") for type_ in REASONS]
    generation = obj["metadata"].get("generation", 0)
    return {
        "observedGeneration": generation,
        "conditions": conditions(obj.get("status") or {}, said, generation, now_s),
    }


def plan_status(plan: Plan, at_s: float) -> Json:
    """Always with every key: a merge patch leaves missing keys unchanged."""
    created = Counter((creation.node, creation.size.name) for creation in plan.created)
    resized = [{"pod": r.container.pod, "from": r.container.size.name, "to": r.to.name} for r in plan.resized]
    removed = [container.pod for container in plan.removed]
    places = [{"node": node, "size": size, "count": count} for (node, size), count in created.items()]
    lists: dict[str, list[Any]] = {"resized": resized, "removed": removed, "created": places}
    return {
        "at": stamp(at_s),
        "target": plan.target,
        "kept": len(plan.kept),
        **{name: listed[:_LISTED] for name, listed in lists.items()},
        "omitted": sum(max(len(listed) - _LISTED, 0) for listed in lists.values()),
        "scalingSeconds": round(plan.scaling_s, 3),
        "resourcePrice": round(plan.resource_price, 3),
        "cost": round(plan.cost, 3),
        "reasons": list(plan.reasons[:_LISTED]),
    }


def target_known(function: ComboFunc, target: int | None, no_data: str = "") -> Condition:
    """`target`: the target planned for. `no_data`: why the collector has no target now."""
    if no_data:
        kept = "nothing is planned" if target is None else f"the last target, {target}, still holds"
        return Condition("TargetKnown", False, "NoData", f"{no_data}; {kept}")
    if function.replicas is not None:
        return Condition("TargetKnown", True, "Replicas", "spec.sizes sets the replicas of each size")
    if function.target is not None:
        return Condition("TargetKnown", True, "Spec", "spec.targetConcurrency sets the target")
    if function.ignored_target is not None:
        ignored = f"spec.targetConcurrency ({function.ignored_target}) is ignored: targetFrom is Collector"
        return Condition("TargetKnown", True, "SpecIgnored", ignored)
    return Condition("TargetKnown", True, "Collector", "the collector measures the target")


def sizes_usable(sizes: Sequence[Size], nodes: Sequence[Node]) -> Condition:
    """Whether each size fits an empty node: room may come back. `sizes` are those of whole pods."""
    accepting = [node for node in nodes if node.accepts]
    if not accepting:
        message = "no node takes its pods now: check Ready, cordon, taints, nodeSelector and node affinity"
        return Condition("SizesUsable", False, "NoNode", message)
    large = [
        size
        for size in sizes
        if not any(
            size.cpu_millicores <= n.cpu_millicores and size.memory_bytes <= n.memory_bytes for n in accepting
        )
    ]
    if not large:
        return Condition("SizesUsable", True, "Usable", "every size fits a node")
    cpu = max(node.cpu_millicores for node in accepting)
    memory = max(node.memory_bytes for node in accepting)
    named = ", ".join(f"{s.name} ({_amount(s.cpu_millicores, s.memory_bytes)})" for s in large)
    return Condition(
        "SizesUsable",
        False,
        "TooLarge",
        f"sizes larger than every node that takes its pods (up to {_amount(cpu, memory)}): {named}; "
        f"make them smaller, remove them from spec.sizes, or add larger nodes",
    )


def _amount(cpu_millicores: int, memory_bytes: int) -> str:
    return f"{cpu_millicores}m, {memory_bytes / 2**20:.0f}Mi"


def planned(
    function: ComboFunc,
    plan: Plan | None,
    failure: str = "",
    unreadable: str = "",
    rolling: bool = False,
    demand: tuple[int, str] = (0, ""),
) -> Condition:
    """`failure`: the planner's error. `unreadable`: which pods cannot be read. `rolling`: pods of an earlier
    template still hold room. `demand`: pods that wait for nodes, and more about that."""
    obstacles = {
        "Paused": "spec.paused is true" if function.paused else "",
        "PodsUnreadable": unreadable,
        "PlannerFailed": failure,
    }
    for reason, obstacle in obstacles.items():
        if obstacle:
            return Condition("Planned", False, reason, f"{obstacle}; pods stay as they are")
    if plan is None:
        return Condition("Planned", False, "NoTarget", "no target is known; pods stay as they are")
    summary = (
        f"keep {len(plan.kept)}, resize {len(plan.resized)}, remove {len(plan.removed)}, "
        f"create {len(plan.created)}: concurrency {plan.concurrency} for a target of {plan.target}"
    )
    if plan.shortage:
        waiting, said = demand
        reason = "Rolling" if rolling else "AwaitingNodes" if waiting else "Shortage"
        advice = {
            "Rolling": "the rest after pods of the earlier template have left",
            "AwaitingNodes": f"no node has room for {plan.shortage}",
            "Shortage": f"no node has room for {plan.shortage}: add nodes, or lower the target",
        }
        return Condition("Planned", False, reason, "; ".join(filter(None, (summary, advice[reason], said))))
    if function.mode is Mode.SHADOW:
        return Condition("Planned", True, "Shadow", f"would {summary}")
    return Condition("Planned", True, "Planned", summary)


def resized(keeping: str) -> Condition:
    """`keeping`: the pods that keep more memory than their size has; empty if there are none."""
    if keeping:
        return Condition("Resized", False, "MemoryInUse", keeping)
    return Condition("Resized", True, "Resized", "no pod keeps more memory than its size has")


def ready(
    function: ComboFunc, plan: Plan | None, ready_concurrency: int, waiting: str = "", failure: str = ""
) -> Condition:
    """`waiting`: what is not done yet. `failure`: what the API server refused."""
    if plan is None and failure:
        return Condition("Ready", None, "Failing", f"concurrency {ready_concurrency}; {failure}")
    if plan is None:
        return Condition("Ready", None, "NoTarget", f"concurrency {ready_concurrency}; no target is known")
    summary = f"concurrency {ready_concurrency} of {plan.target}"
    if failure:
        return Condition("Ready", ready_concurrency >= plan.target, "Failing", f"{summary}; {failure}")
    if ready_concurrency >= plan.target:
        reason = "Rolling" if waiting else "Ready"
        return Condition("Ready", True, reason, "; ".join(filter(None, (summary, waiting))))
    reason = (
        "Paused"
        if function.paused
        else "Shadow"
        if function.mode is Mode.SHADOW
        else "Shortage"
        if plan.shortage and not waiting
        else "Progressing"
    )
    return Condition("Ready", False, reason, "; ".join(filter(None, (summary, waiting))))
