"""Makes a planner respect memory that containers cannot give up because they use it.

Such a container can have any size: it gets the size's cpu and concurrency, and keeps the memory it holds
(`Container.memory_as`). A planner only knows the memory of a size. So it is told that memory held beyond the
size is free, because the container itself may need it to grow. If the plan puts something else there, the
planner is asked again with such containers fixed: kept as they are, or removed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from combofunc.planner.choice import plan_for
from combofunc.planner.model import CUT_SHORT, Node, Plan, Planner, PlanRequest
from combofunc.planner.problem import prepare

__all__ = ["respecting_held_memory"]


def respecting_held_memory(planner: Planner) -> Planner:
    def plan(request: PlanRequest) -> Plan:
        least_bytes = min((size.memory_bytes for size in request.sizes), default=0)
        holding = {c.pod for c in request.containers if c.least_memory_bytes > least_bytes}
        if not holding:
            return planner(request)
        found = planner(replace(request, nodes=_with_held_memory_free(request)))
        if not _fits(found, request):
            fixed = [replace(c, resizable=c.resizable and c.pod not in holding) for c in request.containers]
            found = planner(replace(request, containers=fixed))
        by_pod = {c.pod: c for c in request.containers}
        becoming = {by_pod[c.pod]: c.size for c in found.kept}
        becoming |= {by_pod[r.container.pod]: r.to for r in found.resized}
        priced = plan_for(prepare(request), becoming, found.created)
        kept = f"{len(holding)} containers keep memory because they use it: {min(holding)}, ..."
        cut = [reason for reason in found.reasons if reason == CUT_SHORT]
        return replace(priced, reasons=(*priced.reasons, kept, *cut))

    return plan


def _with_held_memory_free(request: PlanRequest) -> list[Node]:
    beyond: Counter[str] = Counter()
    for container in request.containers:
        beyond[container.node] += container.memory_as(container.size) - container.size.memory_bytes
    return [
        replace(node, memory_free_bytes=node.memory_free_bytes + beyond[node.name])
        if beyond[node.name]
        else node
        for node in request.nodes
    ]


def _fits(plan: Plan, request: PlanRequest) -> bool:
    """Whether every node that gets something new has room, counting the memory really held."""
    free = {node.name: node.memory_free_bytes for node in request.nodes}
    new = {*(c.node for c in plan.created), *(r.container.node for r in plan.resized)}
    after: Counter[str] = Counter()
    for container in request.containers:
        after[container.node] -= container.memory_as(container.size)
    for container in plan.kept:
        after[container.node] += container.memory_as(container.size)
    for resize in plan.resized:
        after[resize.container.node] += resize.container.memory_as(resize.to)
    for creation in plan.created:
        after[creation.node] += creation.size.memory_bytes
    return all(after[node] <= free[node] for node in new)
