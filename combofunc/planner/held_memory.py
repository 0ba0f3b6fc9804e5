"""A plan that counts with memory containers cannot give up, because they use it.

Such a container may have any size: its cpu and its concurrency are the size's, of memory it keeps what it
holds (`Container.memory_as`). A planner knows only the memory of the size. So it is told that what is held
beyond that is free: the container itself may need it to grow. If the plan puts something else there, another
is made, in which such containers are kept as they are or removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from combofunc.planner.choice import plan_for
from combofunc.planner.model import CUT_SHORT, Container, Node, Plan, Planner, Size, Weights
from combofunc.planner.problem import prepare

__all__ = ["respecting_held_memory"]


def respecting_held_memory(planner: Planner) -> Planner:
    def plan(
        sizes: Sequence[Size],
        nodes: Sequence[Node],
        containers: Sequence[Container],
        target: int,
        weights: Weights,
    ) -> Plan:
        least_bytes = min((size.memory_bytes for size in sizes), default=0)
        holding = {c.pod for c in containers if c.least_memory_bytes > least_bytes}
        if not holding:
            return planner(sizes, nodes, containers, target, weights)
        found = planner(sizes, _lent(nodes, containers), containers, target, weights)
        if not _fits(found, nodes, containers):
            fixed = [replace(c, resizable=c.resizable and c.pod not in holding) for c in containers]
            found = planner(sizes, nodes, fixed, target, weights)
        by_pod = {c.pod: c for c in containers}
        becoming = {by_pod[c.pod]: c.size for c in found.kept}
        becoming |= {by_pod[r.container.pod]: r.to for r in found.resized}
        problem = prepare(sizes, nodes, containers, target, weights)
        priced = plan_for(problem, becoming, found.created)
        kept = f"{len(holding)} hold memory that is in use and is not asked back: {min(holding)}, ..."
        cut = [reason for reason in found.reasons if reason == CUT_SHORT]
        return replace(priced, reasons=(*priced.reasons, kept, *cut))

    return plan


def _lent(nodes: Sequence[Node], containers: Sequence[Container]) -> list[Node]:
    beyond: Counter[str] = Counter()
    for container in containers:
        beyond[container.node] += container.memory_as(container.size) - container.size.memory_bytes
    return [
        replace(node, memory_free_bytes=node.memory_free_bytes + beyond[node.name])
        if beyond[node.name]
        else node
        for node in nodes
    ]


def _fits(plan: Plan, nodes: Sequence[Node], containers: Sequence[Container]) -> bool:
    """On every node that gets something new, with the memory that is really held."""
    free = {node.name: node.memory_free_bytes for node in nodes}
    new = {*(c.node for c in plan.created), *(r.container.node for r in plan.resized)}
    after: Counter[str] = Counter()
    for container in containers:
        after[container.node] -= container.memory_as(container.size)
    for container in plan.kept:
        after[container.node] += container.memory_as(container.size)
    for resize in plan.resized:
        after[resize.container.node] += resize.container.memory_as(resize.to)
    for creation in plan.created:
        after[creation.node] += creation.size.memory_bytes
    return all(after[node] <= free[node] for node in new)
