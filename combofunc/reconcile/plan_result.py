"""Runs the planner for one function and names the new pods. Pure; may take a second.

A plan is made in another thread while the cluster changes. So its result says what it was made from, and
`is_stale` compares that with the cluster when the result arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from combofunc.planner.held_memory import respecting_held_memory
from combofunc.planner.idle import keep_idle
from combofunc.planner.model import Container, Plan, Planner
from combofunc.pods.assignment import Assignment, assign
from combofunc.pods.fixed_replicas import plan_replicas
from combofunc.pods.steps import Room
from combofunc.reconcile.function_state import Basis
from combofunc.reconcile.planner_input import PlannerInput
from combofunc.reconcile.status import sizes_usable
from surgekit.kube.conditions import Condition

__all__ = ["PlanResult", "RequestPlan", "failed_result", "is_stale", "make_plan", "plan_at_once"]


@dataclass(frozen=True, slots=True)
class PlanResult:
    """A plan with its assignment, or the failure; and the cluster it was made from."""

    basis: Basis
    failure: str = ""  # if set, only `basis` and `planning_s` hold
    plan: Plan | None = None
    assignment: Assignment | None = None
    sizes_usable: Condition | None = None
    outdated_pods: frozenset[str] = frozenset()
    least_memory: Mapping[str, float] = field(default_factory=dict)
    containers: frozenset[tuple[str, str, str]] = frozenset()  # pod, node, size
    rooms: Mapping[str, Room] = field(default_factory=dict)  # free on the plan's nodes when it was requested
    requested_at_s: float = 0.0
    planning_s: float = 0.0


# Requests a plan for this basis. None: it is not ready yet. The input is made when planning starts.
RequestPlan = Callable[[Basis, Callable[[], PlannerInput]], PlanResult | None]


def plan_at_once(planner: Planner) -> RequestPlan:
    """Plans while the caller waits."""

    def request(basis: Basis, make_input: Callable[[], PlannerInput]) -> PlanResult:
        try:
            return make_plan(basis, make_input(), planner)
        except Exception as error:
            return failed_result(basis, error)

    return request


def failed_result(basis: Basis, error: Exception) -> PlanResult:
    """A result that leaves all pods as they are."""
    return PlanResult(basis, failure=f"{type(error).__name__}: {error}")


def make_plan(basis: Basis, given: PlannerInput, planner: Planner) -> PlanResult:
    """Raises what the planner raises, ValueError for bad input, BadPlan for a plan that does not fit it."""
    function, request = given.function, given.request
    planner = respecting_held_memory(planner)
    if function.replicas is not None:
        plan = plan_replicas(function.replicas, request, planner)
    else:
        plan = planner(request)
        if given.keep_idle:
            plan = keep_idle(plan, request)
    salt = f"{function.uid}/{function.template_hash}/{','.join(sorted(given.pod_names))}"
    used = _needs(plan).keys()
    return PlanResult(
        basis,
        plan=plan,
        assignment=assign(plan, request.containers, function.sizes, function.name, salt),
        sizes_usable=sizes_usable(request.sizes, request.nodes),
        outdated_pods=given.outdated_pods,
        least_memory=given.least_memory,
        containers=frozenset((c.pod, c.node, c.size.name) for c in request.containers),
        rooms={
            node.name: Room(node.cpu_free_millicores, node.memory_free_bytes, node.pods_free)
            for node in request.nodes
            if node.name in used
        },
        requested_at_s=given.now_s,
    )


def is_stale(result: PlanResult, containers: Sequence[Container], room: Callable[[str], Room | None]) -> bool:
    """Whether the function's pods changed since the request, or others took the room the plan needs."""
    if result.plan is None:
        return False
    if result.containers != {(c.pod, c.node, c.size.name) for c in containers}:
        return True
    for node, needs in _needs(result.plan).items():
        now, then = room(node), result.rooms.get(node)
        if now is None or then is None:
            return True
        left = (now.cpu_millicores, now.memory_bytes, now.pods)
        was = (then.cpu_millicores, then.memory_bytes, then.pods)
        if any(max(has, 0) < min(had, need) for has, had, need in zip(left, was, needs, strict=True)):
            return True
    return False


def _needs(plan: Plan) -> Mapping[str, tuple[int, int, int]]:
    """Millicores, bytes and pods that the plan adds on each node with something new, less what it frees."""
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
