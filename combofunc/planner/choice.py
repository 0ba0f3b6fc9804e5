"""Turns a choice of containers into a plan: what is resized, in which order, and the costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from combofunc.planner.model import Container, Creation, Plan, Resize, Size
from combofunc.planner.problem import CORE_MILLICORES, GIB, Problem

__all__ = ["Choice", "plan_for", "plan_of"]


@dataclass(frozen=True, slots=True)
class Choice:
    """Indices into the problem's containers, sizes and nodes. Containers not chosen are removed."""

    kept: Sequence[int]
    resized: Sequence[tuple[int, int]]  # container, size
    created: Sequence[tuple[int, int]]  # node, size


def plan_of(problem: Problem, choice: Choice) -> Plan:
    kept = sorted(choice.kept)
    resized = sorted(choice.resized)
    stays = {*kept, *(container for container, _ in resized)}
    removed = [c for i, c in enumerate(problem.containers) if i not in stays]
    created, creation_s = _turns(problem, choice.created)
    index = {name: i for i, name in enumerate(problem.names)} if stays else {}
    resource_price = 0.0
    scaling_s = creation_s
    resizing: Counter[int] = Counter()
    for i in kept:
        container = problem.containers[i]
        resource_price += _resource_price(problem, index[container.node], container.size, container)
    for i, size in resized:
        container = problem.containers[i]
        at = index[container.node]
        resource_price += _resource_price(problem, at, problem.sizes[size], container)
        resizing[at] += 1
        scaling_s += float(problem.tau_resize_s[at] * problem.resize.each[resizing[at]])
    for at, size in choice.created:
        resource_price += _resource_price(problem, at, problem.sizes[size])
    plan = Plan(
        target=problem.target,
        kept=tuple(problem.containers[i] for i in kept),
        resized=tuple(Resize(problem.containers[i], problem.sizes[size]) for i, size in resized),
        removed=tuple(sorted((*removed, *problem.gone), key=lambda c: (c.node, c.pod))),
        created=created,
        scaling_s=scaling_s,
        resource_price=resource_price,
        cost=scaling_s + problem.weights.price_weight * resource_price,
    )
    return _explained(problem, plan)


def plan_for(problem: Problem, becoming: Mapping[Container, Size], created: Sequence[Creation]) -> Plan:
    """The plan for a choice made elsewhere, priced for this problem."""
    container_at = {c.pod: i for i, c in enumerate(problem.containers)}
    size_at = {size: i for i, size in enumerate(problem.sizes)}
    node_at = {name: i for i, name in enumerate(problem.names)}
    return plan_of(
        problem,
        Choice(
            [container_at[c.pod] for c, size in becoming.items() if size == c.size],
            [(container_at[c.pod], size_at[size]) for c, size in becoming.items() if size != c.size],
            [(node_at[c.node], size_at[c.size]) for c in created],
        ),
    )


def _resource_price(problem: Problem, at: int, size: Size, container: Container | None = None) -> float:
    """B_np, eq. (9)."""
    memory_bytes = container.memory_as(size) if container else size.memory_bytes
    return float(
        problem.cpu_beta[at] * size.cpu_millicores / CORE_MILLICORES
        + problem.memory_beta[at] * memory_bytes / GIB
    )


def _turns(problem: Problem, created: Sequence[tuple[int, int]]) -> tuple[tuple[Creation, ...], float]:
    """Order the creations: the largest first on each node, then by the time they are ready (eq. 6)."""
    turns: Counter[int] = Counter()
    timed = []
    for at, size in sorted(created, key=lambda c: (c[0], -c[1])):
        turns[at] += 1
        slowdown = problem.creation.each[problem.creating[at] + turns[at]]
        turn_s = problem.tau_create_s[at] * slowdown + problem.image_pull_s[at]
        timed.append((float(turn_s), at, turns[at], size))
    timed.sort()
    creations = tuple(Creation(problem.names[at], problem.sizes[size]) for _, at, _, size in timed)
    return creations, sum(turn_s for turn_s, *_ in timed)


def _explained(problem: Problem, plan: Plan) -> Plan:
    """Add reasons for what may surprise a reader of the plan."""
    reasons = []
    changed = (c for c, keepable in zip(problem.containers, problem.keepable, strict=True) if not keepable)
    strange = [c.pod for c in (*problem.gone, *changed)]
    if strange:
        reasons.append(f"{len(strange)} containers have a size not offered any more ({min(strange)}, ...)")
    if plan.shortage:
        closed = sum(not accepts for accepts in problem.accepts[: len(problem.nodes)])
        reasons.append(
            f"{plan.concurrency} of {plan.target} fit: none of {len(problem.nodes)} nodes has cpu, memory "
            f"and a pod slot for more" + (f"; {closed} nodes accept no new containers" if closed else "")
        )
    return replace(plan, reasons=tuple(reasons))
