"""Checks that a plan is feasible and costs what it says. Shares no arithmetic with the planners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from cluster_model.contention import Sharing
from combofunc.planner.model import Container, Node, Plan, PlanRequest, Size, Weights

__all__ = ["violations"]

_GIB = 2**30
_CLOSE = 1e-9


def violations(plan: Plan, request: PlanRequest) -> list[str]:
    """Everything wrong with the plan, in words."""
    by_name = {node.name: node for node in request.nodes}
    found = _fates(plan, request, by_name)
    if plan.target != request.target:
        found.append(f"target {plan.target} instead of {request.target}")
    for node in request.nodes:
        found += _over(plan, node, [c for c in request.containers if c.node == node.name])
    for creation in plan.created:
        if creation.node not in by_name:
            found.append(f"created on {creation.node}: no such node")
        elif not by_name[creation.node].accepts:
            found.append(f"created on {creation.node}, which accepts none")
        if creation.size not in request.sizes:
            found.append(f"created with {creation.size.name}, which is not offered")
    if not found:
        found += _costs(plan, by_name, request)
    return found


def _fates(plan: Plan, request: PlanRequest, nodes: dict[str, Node]) -> list[str]:
    """Each container must be kept, resized or removed exactly once, and only if allowed."""
    found, sizes = [], request.sizes
    fates = Counter([*plan.kept, *plan.removed, *(r.container for r in plan.resized)])
    if fates != Counter(request.containers):
        found.append("kept, resized and removed are not the containers of the request")
    found += [f"{c.pod} kept with {c.size.name}: not offered" for c in plan.kept if c.size not in sizes]
    for resize in plan.resized:
        pod = resize.container.pod
        if resize.to not in sizes:
            found.append(f"{pod} resized to {resize.to.name}, which is not offered")
        if resize.to == resize.container.size:
            found.append(f"{pod} resized to the size it has")
        if not (request.weights.in_place and resize.container.resizable and resize.container.node in nodes):
            found.append(f"{pod} cannot be resized")
    return found


def _over(plan: Plan, node: Node, own: Sequence[Container]) -> list[str]:
    """A node with something new must have room for all it has afterwards. Kept containers always fit."""
    created = [c.size for c in plan.created if c.node == node.name]
    resized = [r for r in plan.resized if r.container.node == node.name]
    if not created and not resized:
        return []
    kept = [c for c in plan.kept if c.node == node.name]
    after = created + [r.to for r in resized] + [c.size for c in kept]
    memory = [size.memory_bytes for size in created]
    memory += [_memory(r.container, r.to) for r in resized] + [_memory(c, c.size) for c in kept]
    has = {
        "millicores": (
            node.cpu_free_millicores + sum(c.size.cpu_millicores for c in own),
            sum(size.cpu_millicores for size in after),
        ),
        "bytes": (
            node.memory_free_bytes + sum(_memory(c, c.size) for c in own),
            sum(memory),
        ),
        "pods": (node.pods_free + len(own), len(after) if created else 0),
    }
    return [
        f"{node.name}: {used} {unit} of {room}" for unit, (room, used) in has.items() if used > max(room, 0)
    ]


def _memory(container: Container, size: Size) -> int:
    """The size's memory, or all it holds if the size has less than it needs."""
    enough = size.memory_bytes >= container.least_memory_bytes
    return size.memory_bytes if enough else max(container.size.memory_bytes, container.least_memory_bytes)


def _slowdown(sharing: Sharing, jobs: int) -> Fraction:
    latency = Fraction(sharing.latency)
    return latency + (1 - latency) * max(Fraction(1), jobs / Fraction(sharing.side_by_side))


def _costs(plan: Plan, nodes: dict[str, Node], request: PlanRequest) -> list[str]:
    weights, contention = request.weights, request.contention
    scaling = Fraction(0)
    for name, count in Counter(r.container.node for r in plan.resized).items():
        slowdowns = (_slowdown(contention.resize, i) for i in range(1, count + 1))
        scaling += Fraction(nodes[name].tau_resize_s) * sum(slowdowns)
    for name, count in Counter(creation.node for creation in plan.created).items():
        node = nodes[name]
        slowdowns = (_slowdown(contention.creation, node.creating + i) for i in range(1, count + 1))
        scaling += Fraction(node.tau_create_s) * sum(slowdowns) + Fraction(node.image_pull_s) * count
    there = [(c.node, c.size, _memory(c, c.size)) for c in plan.kept]
    there += [(c.node, c.size, c.size.memory_bytes) for c in plan.created]
    there += [(r.container.node, r.to, _memory(r.container, r.to)) for r in plan.resized]
    price = Fraction(0)
    for name, size, memory_bytes in there:
        cpu, memory = _betas(nodes.get(name), weights)
        price += cpu * Fraction(size.cpu_millicores, 1000) + memory * Fraction(memory_bytes, _GIB)
    wanted = {
        "scaling_s": float(scaling),
        "resource_price": float(price),
        "cost": float(scaling + Fraction(weights.price_weight) * price),
    }
    return [
        f"{name}: {getattr(plan, name)} instead of {value}"
        for name, value in wanted.items()
        if abs(getattr(plan, name) - value) > _CLOSE * max(1.0, value)
    ]


def _betas(node: Node | None, weights: Weights) -> tuple[Fraction, Fraction]:
    """Eqs (7) and (8)."""
    if node is None:
        return Fraction(1), Fraction(1)
    swing = Fraction(weights.price_swing)

    def beta(free: int, capacity: int) -> Fraction:
        share = min(max(Fraction(free, capacity), Fraction(0)), Fraction(1)) if capacity > 0 else Fraction(0)
        return share * (1 + swing) + (1 - share) * (1 - swing)

    return (
        beta(node.cpu_free_millicores, node.cpu_millicores),
        beta(node.memory_free_bytes, node.memory_bytes),
    )
