"""Plans for a fixed number of replicas of each size (fig. 10a). The planner only chooses the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cluster_model.cost import price
from combofunc.planner.model import Container, Creation, Node, Plan, Planner, PlanRequest, Resize, Size

__all__ = ["plan_replicas"]

_GIB = 2**30


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
    scaling_s = sum(room[resize.container.node].tau_resize_s for resize in resized)
    for size, count in missing.items():
        if count:
            target = count * size.concurrency
            part = planner(PlanRequest([size], list(room.values()), [], target, weights))
            created += part.created
            scaling_s += part.scaling_s
            for creation in part.created:
                node = _with(room[creation.node], size, -1)
                room[creation.node] = replace(node, creating=node.creating + 1)
    resource_price = _resource_price(request, kept, resized, created)
    return Plan(
        target=sum(replicas.get(size.name, 0) * size.concurrency for size in sizes),
        kept=tuple(kept),
        resized=tuple(resized),
        removed=tuple(spare),
        created=tuple(created),
        scaling_s=scaling_s,
        resource_price=resource_price,
        cost=scaling_s + weights.price_weight * resource_price,
        reasons=("spec.sizes fixes the replicas of each size",),
    )


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


def _resource_price(
    request: PlanRequest,
    kept: Sequence[Container],
    resized: Sequence[Resize],
    created: Sequence[Creation],
) -> float:
    """The sum of B_np (eq. 9), with the prices before the plan."""
    swing = request.weights.price_swing
    prices = {
        node.name: (
            price(node.cpu_free_millicores / max(node.cpu_millicores, 1), swing),
            price(node.memory_free_bytes / max(node.memory_bytes, 1), swing),
        )
        for node in request.nodes
    }
    there = [
        *((c.node, c.size, c.memory_as(c.size)) for c in kept),
        *((r.container.node, r.to, r.container.memory_as(r.to)) for r in resized),
        *((c.node, c.size, c.size.memory_bytes) for c in created),
    ]
    return sum(
        cpu * size.cpu_millicores / 1000 + memory * memory_bytes / _GIB
        for node, size, memory_bytes in there
        for cpu, memory in (prices.get(node, (1.0, 1.0)),)
    )
