"""Plans for a fixed number of replicas of each size (fig. 10a). The planner only chooses the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from combofunc.planner.choice import plan_for
from combofunc.planner.model import Container, Creation, Node, Plan, Planner, PlanRequest, Resize, Size
from combofunc.planner.problem import prepare

__all__ = ["plan_replicas"]


def plan_replicas(replicas: Mapping[str, int], request: PlanRequest, planner: Planner) -> Plan:
    """`replicas` by name of size; they replace `request.target`.

    A surplus container is resized in place to a size that is missing, where its node has room.
    """
    sizes, weights = request.sizes, request.weights
    room = {node.name: node for node in request.nodes}
    missing = {size: replicas.get(size.name, 0) for size in sizes}
    kept: list[Container] = []
    spare: list[Container] = []
    for container in sorted(request.containers, key=lambda c: (c.resizable, c.pod)):
        if missing.get(container.size, 0) > 0:
            missing[container.size] -= 1
            kept.append(container)
        else:
            spare.append(container)
    resized: list[Resize] = []
    if weights.in_place:
        for size in sorted(missing, key=lambda s: (-s.concurrency, s.name)):
            for container in [c for c in spare if c.resizable]:
                node = room.get(container.node)
                grown = node and _with(node, container.size, 1, 0, container)
                if missing[size] > 0 and grown and _fits(grown, size, container):
                    room[container.node] = _with(grown, size, -1, 0, container)
                    missing[size] -= 1
                    spare.remove(container)
                    resized.append(Resize(container, size))
    for container in spare:
        if (node := room.get(container.node)) is not None:
            room[container.node] = _with(node, container.size, 1, 1, container)
    created: list[Creation] = []
    for size, count in missing.items():
        if count:
            nodes, target = list(room.values()), count * size.concurrency
            part = planner(replace(request, sizes=[size], nodes=nodes, containers=[], target=target))
            created += part.created
            for creation in part.created:
                node = _with(room[creation.node], size, -1)
                room[creation.node] = replace(node, creating=node.creating + 1)
    target = sum(replicas.get(size.name, 0) * size.concurrency for size in sizes)
    becoming = {c: c.size for c in kept} | {r.container: r.to for r in resized}
    plan = plan_for(prepare(replace(request, target=target)), becoming, created)
    return replace(plan, reasons=("spec.sizes fixes the replicas of each size", *plan.reasons))


def _fits(node: Node, size: Size, container: Container) -> bool:
    return (
        size.cpu_millicores <= node.cpu_free_millicores
        and container.memory_as(size) <= node.memory_free_bytes
    )


def _with(node: Node, size: Size, sign: int, pods: int = 1, container: Container | None = None) -> Node:
    """The node after a container of that size left (sign 1) or came (-1). `container`: None for a new one."""
    memory_bytes = container.memory_as(size) if container else size.memory_bytes
    return replace(
        node,
        cpu_free_millicores=node.cpu_free_millicores + sign * size.cpu_millicores,
        memory_free_bytes=node.memory_free_bytes + sign * memory_bytes,
        pods_free=node.pods_free + sign * pods,
    )
