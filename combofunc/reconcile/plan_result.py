"""From what is asked of a planner to a plan with names on it. Pure, and may take a while.

A question holds values only, so that it can be answered in another thread while the cluster moves on. The
answer says what it was made from; whoever takes it compares that with what there is by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from combofunc.planner.held_memory import respecting_held_memory
from combofunc.planner.model import Container, Node, Plan, Planner, Weights
from combofunc.planner.warm import plan_keeping_warm
from combofunc.pods.assignment import Assignment, assign
from combofunc.pods.fixed_replicas import plan_replicas
from combofunc.pods.steps import Room
from combofunc.reconcile.planner_input import Shape
from combofunc.reconcile.spec import ComboFunc
from combofunc.reconcile.status import sizes_usable
from surgekit.kube.conditions import Condition

__all__ = ["Answer", "Ask", "Question", "answer", "at_once", "failed", "overtaken"]


@dataclass(frozen=True, slots=True)
class Question:
    function: ComboFunc
    target: int
    shape: Shape
    nodes: Sequence[Node]
    containers: Sequence[Container]
    weights: Weights
    idle_since: Mapping[str, float]
    pods: Sequence[str]  # names of all there are, so that none is given again
    outdated: frozenset[str]  # of pods of earlier templates
    least_memory: Mapping[str, float]  # pod's uid -> bytes it is not asked to go below
    now_s: float


@dataclass(frozen=True, slots=True)
class Answer:
    basis: tuple[Any, ...]  # what was wanted
    failure: str = ""  # then there is nothing else
    plan: Plan | None = None
    assignment: Assignment | None = None
    idle_since: Mapping[str, float] = field(default_factory=dict)
    usable: Condition | None = None
    outdated: frozenset[str] = frozenset()
    least_memory: Mapping[str, float] = field(default_factory=dict)
    containers: frozenset[tuple[str, str, str]] = frozenset()  # pod, node, size
    rooms: Mapping[str, Room] = field(default_factory=dict)  # that were left on the plan's nodes
    asked_at_s: float = 0.0
    took_s: float = 0.0


# Asks for a plan for this basis; None while it is not there. The question is made when its turn comes.
Ask = Callable[[tuple[Any, ...], Callable[[], Question]], Answer | None]


def at_once(planner: Planner) -> Ask:
    """Plans while the caller waits."""

    def ask(basis: tuple[Any, ...], question: Callable[[], Question]) -> Answer:
        try:
            return answer(basis, question(), planner)
        except Exception as error:
            return failed(basis, error)

    return ask


def failed(basis: tuple[Any, ...], error: Exception) -> Answer:
    """Whatever it is, the pods stay as they are."""
    return Answer(basis, failure=f"{type(error).__name__}: {error}")


def answer(basis: tuple[Any, ...], asked: Question, planner: Planner) -> Answer:
    """Raises what the planner does, and for a question that makes no sense."""
    function, sizes, nodes, containers = asked.function, asked.shape.sizes, asked.nodes, asked.containers
    planner = respecting_held_memory(planner)
    idle_since: Mapping[str, float] = {}
    if function.replicas is not None:
        plan = plan_replicas(function.replicas, sizes, nodes, containers, asked.weights, planner)
    else:
        question = (sizes, nodes, containers, asked.target, asked.weights)
        warm = (asked.idle_since, function.keep_warm_s, asked.now_s)
        plan, idle_since = plan_keeping_warm(planner, *question, *warm)
    salt = f"{function.uid}/{function.template_hash}/{','.join(sorted(asked.pods))}"
    used = _needs(plan).keys()
    return Answer(
        basis,
        plan=plan,
        assignment=assign(plan, containers, function.sizes, function.name, salt),
        idle_since=idle_since,
        usable=sizes_usable(sizes, nodes),
        outdated=asked.outdated,
        least_memory=asked.least_memory,
        containers=frozenset((c.pod, c.node, c.size.name) for c in containers),
        rooms={
            node.name: Room(node.cpu_free_millicores, node.memory_free_bytes, node.pods_free)
            for node in nodes
            if node.name in used
        },
        asked_at_s=asked.now_s,
    )


def overtaken(found: Answer, containers: Sequence[Container], room: Callable[[str], Room | None]) -> bool:
    """Whether the answer came too late: the function's pods are others, or the room it counts on is taken."""
    if found.plan is None:
        return False
    if found.containers != {(c.pod, c.node, c.size.name) for c in containers}:
        return True
    for node, needs in _needs(found.plan).items():
        now, then = room(node), found.rooms.get(node)
        if now is None or then is None:
            return True
        left = (now.cpu_millicores, now.memory_bytes, now.pods)
        was = (then.cpu_millicores, then.memory_bytes, then.pods)
        if any(max(has, 0) < min(had, need) for has, had, need in zip(left, was, needs, strict=True)):
            return True
    return False


def _needs(plan: Plan) -> Mapping[str, tuple[int, int, int]]:
    """By node that gets something new: the millicores, bytes and pods it takes, less those it gives back."""
    new = {*(c.node for c in plan.created), *(r.container.node for r in plan.resized)}
    changes = [(c.node, c.size, c.size.memory_bytes, 1, 1) for c in plan.created]
    changes += [(r.container.node, r.to, r.container.memory_as(r.to), 1, 0) for r in plan.resized]
    going = [*((r.container, 0) for r in plan.resized), *((c, -1) for c in plan.removed)]
    changes += [(c.node, c.size, c.memory_as(c.size), -1, pods) for c, pods in going]
    needs = dict.fromkeys(new, (0, 0, 0))
    for node, size, memory_bytes, sign, pods in changes:
        if node in new:
            cpu, memory, slots = needs[node]
            needs[node] = cpu + sign * size.cpu_millicores, memory + sign * memory_bytes, slots + pods
    return needs
