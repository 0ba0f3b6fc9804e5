"""Keeps containers that a plan would remove, for a while.

A load that fell often comes back, and growing a running container takes tau_u where creating one takes tau_c.
So a container that the plan does not need stays for `keep_s`, as small as it can be made in place, and counts
toward the target. The paper does not say what happens when the target falls. Eq. (11) alone removes at once
and leaves little that could grow.

Containers are removed at once, without a warm time:
- at a target of 0;
- if the plan without their room creates more, or finishes later, or falls short;
- if keeping them makes the plan use a container again whose warm time is over;
- in place of such a container that the plan itself uses again: the two would swap for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from combofunc.planner.choice import plan_for
from combofunc.planner.model import CUT_SHORT, Container, Node, Plan, Planner, PlanRequest, Size
from combofunc.planner.problem import CORE_MILLICORES, GIB, prepare

__all__ = ["plan_keeping_warm"]

# Warm containers count toward the target, so the plan may then need fewer others, which become warm in turn.
# After so many rounds the remaining ones are removed.
_ROUNDS = 4


def plan_keeping_warm(
    planner: Planner, request: PlanRequest, idle_since: Mapping[str, float], keep_s: float, now_s: float
) -> tuple[Plan, dict[str, float]]:
    """The plan, and the time since when each idle pod has been idle.

    `idle_since` is what the previous call returned. Idle pods are those kept warm, and those that were warm
    and are removed by this plan.
    """
    sizes, nodes, containers, target = request.sizes, request.nodes, request.containers, request.target
    first = rest = planner(request)
    over = {pod for pod, since_s in idle_since.items() if since_s + keep_s <= now_s}
    idle_since = _without_swaps(first, containers, idle_since, over)
    # An over-committed node takes nothing new, not even a container made smaller.
    roomy = {n.name for n in nodes if n.cpu_free_millicores >= 0 and n.memory_free_bytes >= 0}

    def expired(container: Container) -> bool:
        return idle_since.get(container.pod, now_s) + keep_s <= now_s

    def warm_size(container: Container) -> Size | None:
        """The size to keep it warm with; None: do not keep it."""
        if not target or expired(container):
            return None
        if not container.resizable and container.pod not in idle_since:
            return None  # still being created or grown: do not wait for it
        can_shrink = request.weights.in_place and container.resizable and container.node in roomy
        return _smallest(container, sizes, can_shrink)

    expired_at_first = {c for c in first.removed if expired(c)}
    held: dict[Container, Size] = {}
    chosen: tuple[Plan, dict[Container, Size]] | None = None
    for _ in range(_ROUNDS):
        idle = {c: size for c in rest.removed if (size := warm_size(c)) is not None}
        if not idle:
            break
        held |= idle
        others = [c for c in containers if c not in held]
        missing = max(target - sum(size.concurrency for size in held.values()), 0)
        rest = planner(replace(request, nodes=_with_warm(nodes, held), containers=others, target=missing))
        later = len(rest.created) > len(first.created) or _last_s(rest, request) > _last_s(first, request)
        reused = not expired_at_first.issubset(rest.removed)
        if later or reused or rest.shortage > first.shortage:
            break
        chosen = rest, dict(held)
    plan, warm = first, dict[Container, Size]()
    if chosen is not None:
        warm = chosen[1]
        plan = _merged(*chosen, request)
    # A removed container may still be there at the next plan: keep its time, so that it stays removed.
    going = {c.pod: idle_since[c.pod] for c in plan.removed if c.pod in idle_since}
    return plan, going | {c.pod: idle_since.get(c.pod, now_s) for c in warm}


def _without_swaps(
    first: Plan, containers: Sequence[Container], idle_since: Mapping[str, float], over: Set[str]
) -> Mapping[str, float]:
    """Where the plan uses a container again whose warm time is over, one that becomes idle takes its time."""
    used = [c for c in containers if c.pod in over and c not in first.removed]
    idle = sorted((c for c in first.removed if c.pod not in idle_since), key=lambda c: (_units(c), c.pod))
    times_s = {late.pod: idle_since[c.pod] for late, c in zip(reversed(idle), used, strict=False)}
    return {**idle_since, **times_s}


def _units(container: Container) -> float:
    """Cores and GiB that it holds."""
    memory_bytes = container.memory_as(container.size)
    return container.size.cpu_millicores / CORE_MILLICORES + memory_bytes / GIB


def _last_s(plan: Plan, request: PlanRequest) -> float:
    """When the last creation is done, by eq. (6)."""
    created = Counter(creation.node for creation in plan.created)
    slowdown = request.contention.creation.slowdown
    return max(
        (
            n.tau_create_s * slowdown(n.creating + created[n.name]) + n.image_pull_s
            for n in request.nodes
            if n.name in created
        ),
        default=0.0,
    )


def _smallest(container: Container, sizes: Sequence[Size], in_place: bool) -> Size | None:
    """The smallest size it can have; None if its size is no longer offered and it cannot be resized."""
    size, held_bytes = container.size, container.memory_as(container.size)
    possible = [
        s
        for s in sizes
        if s == size
        or (in_place and s.cpu_millicores <= size.cpu_millicores and s.memory_bytes <= held_bytes)
    ]
    return min(
        possible,
        key=lambda s: (s.cpu_millicores / CORE_MILLICORES + container.memory_as(s) / GIB, s.name),
        default=None,
    )


def _with_warm(nodes: Sequence[Node], held: Mapping[Container, Size]) -> list[Node]:
    """The nodes after the warm containers have shrunk. Warm containers stay outside the plan."""
    freed: dict[str, tuple[int, int]] = {}
    for container, size in held.items():
        cpu, memory = freed.get(container.node, (0, 0))
        freed[container.node] = (
            cpu + container.size.cpu_millicores - size.cpu_millicores,
            memory + container.memory_as(container.size) - container.memory_as(size),
        )
    return [
        replace(
            node,
            cpu_free_millicores=node.cpu_free_millicores + freed[node.name][0],
            memory_free_bytes=node.memory_free_bytes + freed[node.name][1],
        )
        if node.name in freed
        else node
        for node in nodes
    ]


def _merged(rest: Plan, held: Mapping[Container, Size], request: PlanRequest) -> Plan:
    """One plan for the whole request: `rest` and the warm containers, priced together."""
    becoming = {r.container: r.to for r in rest.resized} | {c: c.size for c in rest.kept} | dict(held)
    plan = plan_for(prepare(request), becoming, rest.created)
    warm = f"{len(held)} idle containers are kept warm, ready to grow: {min(c.pod for c in held)}, ..."
    return replace(plan, reasons=(*plan.reasons, warm, *(r for r in rest.reasons if r == CUT_SHORT)))
