"""Keeps containers that a plan would remove, as small as they can be.

A load that fell often comes back, and growing a running container takes tau_u where creating one takes tau_c.
The paper does not say what happens when the target falls: eq. (11) alone removes what the next rise creates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from combofunc.planner.choice import plan_for
from combofunc.planner.model import Container, Plan, PlanRequest, Size
from combofunc.planner.problem import CORE_MILLICORES, GIB, prepare

__all__ = ["keep_idle"]


def keep_idle(plan: Plan, request: PlanRequest) -> Plan:
    """The same plan; removed containers shrink instead, where the plan leaves room for that.

    Plans that create something, or fall short, stay as they are: they need the room.
    """
    if not request.target or not request.weights.in_place or plan.created or plan.shortage:
        return plan
    room = _room_after(plan, request)
    idle: dict[Container, Size] = {}
    for container in plan.removed:
        size = _smallest(container, request.sizes) if container.resizable else None
        cpu, memory = room.get(container.node, (0, 0))
        if size and size.cpu_millicores <= cpu and container.memory_as(size) <= memory:
            room[container.node] = cpu - size.cpu_millicores, memory - container.memory_as(size)
            idle[container] = size
    if not idle:
        return plan
    becoming = {c: c.size for c in plan.kept} | {r.container: r.to for r in plan.resized} | idle
    kept = f"{len(idle)} idle containers are kept, ready to grow: {min(c.pod for c in idle)}, ..."
    found = plan_for(prepare(request), becoming, ())
    return replace(found, reasons=(*dict.fromkeys((*plan.reasons, *found.reasons)), kept))


def _room_after(plan: Plan, request: PlanRequest) -> dict[str, tuple[int, int]]:
    """Millicores and bytes that are free on each node when the plan is carried out."""
    room = {node.name: (node.cpu_free_millicores, node.memory_free_bytes) for node in request.nodes}
    freed = [(c, c.size.cpu_millicores, c.memory_as(c.size)) for c in plan.removed]
    for resize in plan.resized:
        container, to = resize.container, resize.to
        cpu = container.size.cpu_millicores - to.cpu_millicores
        freed.append((container, cpu, container.memory_as(container.size) - container.memory_as(to)))
    for container, cpu, memory in freed:
        if container.node in room:
            room[container.node] = room[container.node][0] + cpu, room[container.node][1] + memory
    return room


def _smallest(container: Container, sizes: Sequence[Size]) -> Size | None:
    """The smallest size on offer that is no larger than what it holds."""
    cpu, memory = container.size.cpu_millicores, container.memory_as(container.size)
    return min(
        (s for s in sizes if s.cpu_millicores <= cpu and s.memory_bytes <= memory),
        key=lambda s: (s.cpu_millicores / CORE_MILLICORES + container.memory_as(s) / GIB, s.name),
        default=None,
    )
