"""A plan that does not yet remove what it has no use for.

Loads that fell come back, and growing a container that runs takes tau_u where creating one takes tau_c. So
what a plan would remove stays for a while, as small as it can be made in place, and counts toward the target.
The paper leaves open what happens on the way down; removing at once, as eq. (11) alone would, leaves little
that could grow.

Who wants nothing gets nothing: at a target of 0 all go. So they do where a plan without their room would have
to create more, or later, or would fall short, and where it needed somebody again whose time is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from combofunc.planner.choice import plan_for
from combofunc.planner.model import CUT_SHORT, Container, Node, Plan, Planner, Size, Weights
from combofunc.planner.problem import CORE_MILLICORES, GIB, prepare

__all__ = ["plan_keeping_warm"]

# What is kept warm counts toward the target, so that more may be needed no longer. Beyond this they go.
_ROUNDS = 4


def plan_keeping_warm(
    planner: Planner,
    sizes: Sequence[Size],
    nodes: Sequence[Node],
    containers: Sequence[Container],
    target: int,
    weights: Weights,
    idle_since: Mapping[str, float],
    keep_s: float,
    now_s: float,
) -> tuple[Plan, dict[str, float]]:
    """The plan, and since when pods have been idle: those kept warm, and those that were and go now.

    `idle_since`: as it was after the plan before.
    """
    first = rest = planner(sizes, nodes, containers, target, weights)
    # On a node that is over-committed nothing is new, not even a smaller container.
    roomy = {n.name for n in nodes if n.cpu_free_millicores >= 0 and n.memory_free_bytes >= 0}

    def over(container: Container) -> bool:
        return idle_since.get(container.pod, now_s) + keep_s <= now_s

    def held_as(container: Container) -> Size | None:
        if not target or over(container):
            return None
        if not container.resizable and container.pod not in idle_since:
            return None  # on its way: not waited for; only who is being made smaller is
        moves = weights.in_place and container.resizable and container.node in roomy
        return _smallest(container, sizes, moves)

    had_their_time = {c for c in first.removed if over(c)}
    held: dict[Container, Size] = {}
    chosen: tuple[Plan, dict[Container, Size]] | None = None
    for _ in range(_ROUNDS):
        idle = {c: size for c in rest.removed if (size := held_as(c)) is not None}
        if not idle:
            break
        held |= idle
        others = [c for c in containers if c not in held]
        missing = max(target - sum(size.concurrency for size in held.values()), 0)
        rest = planner(sizes, _holding(nodes, held), others, missing, weights)
        later = len(rest.created) > len(first.created) or _last_s(rest, nodes) > _last_s(first, nodes)
        renewed = not had_their_time.issubset(rest.removed)
        if later or renewed or rest.shortage > first.shortage:
            break
        chosen = rest, dict(held)
    plan, warm = first, dict[Container, Size]()
    if chosen is not None:
        warm = chosen[1]
        plan = _merged(*chosen, sizes, nodes, containers, target, weights)
    # Who goes and is still there when the next plan is made has had its time.
    going = {c.pod: idle_since[c.pod] for c in plan.removed if c.pod in idle_since}
    return plan, going | {c.pod: idle_since.get(c.pod, now_s) for c in warm}


def _last_s(plan: Plan, nodes: Sequence[Node]) -> float:
    """When the last creation is done, by eq. (6)."""
    created = Counter(creation.node for creation in plan.created)
    return max(
        (
            n.tau_create_s * (n.creating + created[n.name]) + n.image_pull_s
            for n in nodes
            if n.name in created
        ),
        default=0.0,
    )


def _smallest(container: Container, sizes: Sequence[Size], in_place: bool) -> Size | None:
    """What it is kept as; None where it has a size that is not offered and cannot have another."""
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


def _holding(nodes: Sequence[Node], held: Mapping[Container, Size]) -> list[Node]:
    """The nodes with these containers as small as that, and nobody's to plan with."""
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


def _merged(
    rest: Plan,
    held: Mapping[Container, Size],
    sizes: Sequence[Size],
    nodes: Sequence[Node],
    containers: Sequence[Container],
    target: int,
    weights: Weights,
) -> Plan:
    """One plan for the whole question, priced as such."""
    problem = prepare(sizes, nodes, containers, target, weights)
    becoming = {r.container: r.to for r in rest.resized} | {c: c.size for c in rest.kept} | dict(held)
    plan = plan_for(problem, becoming, rest.created)
    warm = f"{len(held)} that nothing needs now are kept warm, ready to grow: {min(c.pod for c in held)}, ..."
    return replace(plan, reasons=(*plan.reasons, warm, *(r for r in rest.reasons if r == CUT_SHORT)))
