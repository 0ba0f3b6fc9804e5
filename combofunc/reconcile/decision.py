"""Decides for one function whether a new plan is needed, and what to do next. Pure; time is an argument.

A plan is carried out until the target, the sizes or the template change, or until it cannot be carried out:
one of its pods is gone, a resize is refused or waits too long, no node takes a pod. Then another plan is
requested. Until it arrives, nothing changes. If the planner fails, nothing changes either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cluster_model.contention import CONTENTION
from combofunc.planner.model import Container, Node, PlanRequest, Weights
from combofunc.pods.actions import Action, Delete
from combofunc.pods.assignment import Assignment, with_created
from combofunc.pods.memory_in_use import least_memory
from combofunc.pods.steps import Room, StepContext, Steps, next_steps, released
from combofunc.reconcile.function_state import FunctionState, Observation, basis_of
from combofunc.reconcile.held_target import held_target, idle_until_s, note_target
from combofunc.reconcile.node_demand import DemandCase, demand_nodes
from combofunc.reconcile.plan_result import PlanResult, RequestPlan, is_stale
from combofunc.reconcile.plan_validity import next_check_s, note_refusals, replan_reason, stuck_pods
from combofunc.reconcile.planner_input import PlannerInput, new_pod_body, planner_containers, pod_shape
from combofunc.settings import Settings
from surgekit.decision import Decision
from surgekit.process.modes import Mode

__all__ = ["ClusterView", "FunctionUpdate", "decide"]

Json = dict[str, Any]
_DEBOUNCE_S = 0.3  # pods lost at the same time lead to one plan
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 30.0
# After so many stale plans in a row the next is carried out, stale or not: a pod without room waits behind
# its gate, then goes to another node.
_MAX_STALE_PLANS = 3
_LISTED = 5


class ClusterView(Protocol):
    def planner_nodes(self, pod_spec: Json) -> list[Node]: ...

    def room(self, name: str) -> Room | None: ...

    def lost(self, node: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class FunctionUpdate:
    """What to do about one function now, and what to remember."""

    state: FunctionState
    actions: tuple[Action, ...] = ()
    waiting: str = ""  # what the plan still waits for
    planning: bool = False  # a plan is needed and not ready yet
    replanned: bool = False  # a plan was made, or the planner failed
    again_in_s: float = math.inf
    least_memory: Mapping[str, float] = field(default_factory=dict)  # pod's uid -> bytes; not shrunk below
    awaiting_nodes: int = 0  # pods that wait for nodes
    node_demand: str = ""  # what is done about the shortage, in words


def decide(
    seen: Observation,
    state: FunctionState,
    cluster: ClusterView,
    request_plan: RequestPlan,
    settings: Settings,
) -> Decision[FunctionUpdate]:
    """Not valid if the pods or the target are not known, or the planner failed: then only gates come off."""
    # Pods that wait for nodes are in no plan: nobody knows yet where they will run.
    planned = replace(seen, pods=[pod for pod in seen.pods if not pod.awaits_node])
    if len(planned.pods) < len(seen.pods):
        # kube-scheduler gives them the room that appears. A plan would compete with it.
        retry_at_s = max(state.retry_short_at_s, state.planned_at_s + _LONGEST_WAIT_S)
        state = replace(state, retry_short_at_s=retry_at_s)
    decision = _decide(planned, state, cluster, request_plan, settings)
    update, function = decision.action, seen.function
    plan = update.state.plan
    unknown = not decision.valid or update.planning or update.state.planner_failure
    if plan is None or unknown or function.paused:
        return decision
    step = demand_nodes(
        update.state.nodes,
        DemandCase(
            function,
            [pod for pod in seen.pods if pod.awaits_node and pod.live],
            [pod.name for pod in seen.pods],
            plan,
            bool(update.state.outdated_pods),
            seen.chosen_sizes,
            settings,
            seen.now_s,
        ),
    )
    update = replace(
        update,
        state=replace(update.state, nodes=step.demand),
        actions=(*update.actions, *step.actions),
        again_in_s=min(update.again_in_s, step.again_in_s),
        awaiting_nodes=step.waiting,
        node_demand=step.said,
    )
    return replace(decision, action=update)


def _decide(
    seen: Observation,
    state: FunctionState,
    cluster: ClusterView,
    request_plan: RequestPlan,
    settings: Settings,
) -> Decision[FunctionUpdate]:

    def decided(update: FunctionUpdate, reason: str, valid: bool = True) -> Decision[FunctionUpdate]:
        return Decision(update, (reason,), seen.inputs_age_s, valid)

    function, now_s, target = seen.function, seen.now_s, seen.target
    # Pods on a lost node cannot serve: they do not count.
    seen = replace(seen, pods=[pod for pod in seen.pods if not (pod.node and cluster.lost(pod.node))])
    if target is not None and not seen.unreadable_pods:
        state = _with_warm(seen, target, state)
    least = least_memory(state.memory_refusals, seen.pods, seen.memory_use, now_s)
    idle = FunctionUpdate(state, tuple(_released(seen, cluster, settings)), least_memory=least)
    if seen.unreadable_pods or function.paused or target is None:
        known = not seen.unreadable_pods and target is not None
        return decided(idle, _hold_reason(seen), valid=known)
    if state.assignment:
        state = replace(state, assignment=with_created(state.assignment, seen.pods))
    stuck = stuck_pods(seen, state, settings)
    state = note_refusals(seen, state, settings)
    least = least_memory(state.memory_refusals, seen.pods, seen.memory_use, now_s)
    idle = replace(idle, least_memory=least)
    same = state.basis == basis_of(function, state, now_s)
    if same:
        state = _with_target(state, target)
    why = replan_reason(seen, state, stuck, least, settings)
    if why and now_s < state.replan_not_before_s and same:
        return decided(replace(idle, state=state, again_in_s=state.replan_not_before_s - now_s), why)
    case = _Case(seen, state, cluster, settings, least)
    if why:
        remaining = replace(seen, pods=[pod for pod in seen.pods if pod.uid not in stuck])
        result, state = replace(case, seen=remaining).request(request_plan)
        if result is None:
            return decided(replace(idle, state=state, planning=True), why)
        state = _with_result(state, result, now_s)
        if state.planner_failure:
            failed = replace(idle, state=state, replanned=True)
            return decided(replace(failed, again_in_s=state.replan_not_before_s - now_s), why, valid=False)
        state = _with_target(state, target)
        state = replace(state, stuck_plans=state.stuck_plans + 1 if stuck else state.stuck_plans)
    update, reason = replace(idle, replanned=bool(why)), why or "the plan holds"
    if function.mode is Mode.SHADOW or state.assignment is None:
        return decided(replace(update, state=state, again_in_s=next_check_s(seen, state)), reason)
    steps = replace(case, state=state).steps(state.assignment)
    if not steps.waiting and not stuck:
        # The failed write was carried out after all (only its answer was lost), or is no longer needed.
        api_failure = state.api_failure if steps.actions else ""
        state = replace(state, stuck_plans=0, api_failure=api_failure)
    deleted = [Delete(pod.name, pod.uid, "no node takes it") for pod in seen.pods if pod.uid in stuck]
    update = replace(
        update,
        state=state,
        actions=(*deleted, *steps.actions),
        waiting=steps.waiting,
        again_in_s=min(steps.again_in_s, next_check_s(seen, state)),
    )
    return decided(update, reason)


def _with_warm(seen: Observation, target: int, state: FunctionState) -> FunctionState:
    """Note what is kept warm. Pods that drain, and pods of an earlier template, are not kept."""
    function = seen.function
    sizes = {size.name: size.concurrency for size in function.sizes}
    running = sum(
        max(pod.concurrency, sizes.get(pod.size, 0))  # the annotation is raised after a growth
        for pod in seen.pods
        if pod.live and pod.draining_since_s is None and pod.template == function.template_hash
    )
    keep_s = 0.0 if function.replicas is not None else function.keep_warm_s
    before, now_s = state.recent_targets, seen.now_s
    recent = note_target(before, target, running, keep_s, now_s)
    until_s = idle_until_s(before, recent, state.idle_until_s, keep_s, now_s)
    return replace(state, recent_targets=recent, idle_until_s=until_s)


def _hold_reason(seen: Observation) -> str:
    """A plan without the unreadable pods would replace pods that exist."""
    unreadable = seen.unreadable_pods
    if not unreadable:
        return "no target is known" if seen.target is None else "spec.paused is true"
    listed = ", ".join(unreadable[:_LISTED]) + (" and others" if len(unreadable) > _LISTED else "")
    return f"{len(unreadable)} of its pods cannot be read ({listed})"


def _released(seen: Observation, cluster: ClusterView, settings: Settings) -> list[Action]:
    """Gates to remove. Always done, so that no pod is held back for good."""
    rooms = _rooms({pod.planned_node for pod in seen.pods if pod.gated}, cluster)
    return released(seen.pods, rooms, _gate_timeout_s(seen, settings), seen.now_s)


def _gate_timeout_s(seen: Observation, settings: Settings) -> float:
    return settings.gate_timeout_s + seen.function.drain_s


def _rooms(names: set[str], cluster: ClusterView) -> dict[str, Room]:
    return {name: room for name in names if (room := cluster.room(name)) is not None}


@dataclass(frozen=True, slots=True)
class _Case:
    """A function whose pods and target are known, and the cluster around it."""

    seen: Observation
    state: FunctionState
    cluster: ClusterView
    settings: Settings
    least_memory: Mapping[str, float]

    def request(self, request_plan: RequestPlan) -> tuple[PlanResult | None, FunctionState]:
        """Request a plan, and once more if the result is stale. The result is None if it is not ready yet.

        Also returns the state, with stale plans counted.
        """
        state, basis = self.state, basis_of(self.seen.function, self.state, self.seen.now_s)
        result = request_plan(basis, self._input)
        if result is None or result.plan is None or state.stale_plans >= _MAX_STALE_PLANS:
            return result, state
        if is_stale(result, self._containers(), self.cluster.room):
            state = replace(state, stale_plans=state.stale_plans + 1)
            return request_plan(basis, self._input), state
        return result, state

    def _input(self) -> PlannerInput:
        function, pods, weight = self.seen.function, self.seen.pods, self.seen.function.price_weight
        return PlannerInput(
            function,
            PlanRequest(
                pod_shape(function).sizes,
                self.cluster.planner_nodes(function.template["spec"]),
                self._containers(),
                held_target(self.state.recent_targets),
                Weights(
                    self.settings.price_weight if weight is None else weight,
                    self.settings.price_swing,
                    function.in_place,
                ),
                CONTENTION[self.settings.contention],
            ),
            [pod.name for pod in pods],
            frozenset(pod.name for pod in pods if pod.template != function.template_hash),
            self.least_memory,
            self.seen.now_s,
            keep_idle=self.seen.now_s < self.state.idle_until_s,
        )

    def _containers(self) -> list[Container]:
        function, pods, refused = self.seen.function, self.seen.pods, self.state.no_resize_until_s
        return planner_containers(function, pod_shape(function), pods, refused, self.least_memory)

    def steps(self, assignment: Assignment) -> Steps:
        seen, function = self.seen, self.seen.function
        names = {new.node for new in assignment.new} | {pod.node or pod.planned_node for pod in seen.pods}
        context = StepContext(
            template_hash=function.template_hash,
            container=function.container,
            rooms=_rooms(names, self.cluster),
            new_body=lambda new: new_pod_body(function, new),
            whole_pod=pod_shape(function).whole,
            least_memory=self.least_memory,
            drain_s=function.drain_s,
            gate_timeout_s=_gate_timeout_s(seen, self.settings),
            creations_fail=bool(self.state.api_failure),
            now_s=seen.now_s,
        )
        return next_steps(assignment, seen.pods, context)


def _with_target(state: FunctionState, target: int) -> FunctionState:
    """The plan in force may hold more. What is short, and what must keep serving, goes by the target."""
    plan, assignment = state.plan, state.assignment
    if plan is None:
        return state
    if assignment is not None:
        assignment = replace(assignment, target=target, goal=min(target, plan.concurrency))
    return replace(state, plan=replace(plan, target=target), assignment=assignment)


def _with_result(state: FunctionState, result: PlanResult, now_s: float) -> FunctionState:
    same = state.basis == result.basis
    wait_s = min(max(2 * state.retry_wait_s, _FIRST_WAIT_S), _LONGEST_WAIT_S) if same else _FIRST_WAIT_S
    plan, assignment = result.plan, result.assignment
    if plan is None or assignment is None:
        return replace(
            state, basis=result.basis, assignment=None, planner_failure=result.failure,
            retry_wait_s=wait_s, replan_not_before_s=now_s + wait_s,
        )  # fmt: skip
    better = same and state.plan is not None and plan.concurrency > state.plan.concurrency
    wait_s = _FIRST_WAIT_S if better else wait_s
    return replace(
        state,
        basis=result.basis,
        assignment=assignment,
        plan=plan,
        planned_at_s=result.requested_at_s,
        planning_s=result.planning_s,
        sizes_usable=result.sizes_usable,
        outdated_pods=result.outdated_pods,
        least_memory=result.least_memory,
        stale_plans=0,
        planner_failure="",
        api_failure="" if not same else state.api_failure,
        retry_wait_s=wait_s if assignment.short else 0.0,
        replan_not_before_s=now_s + _DEBOUNCE_S,
        retry_short_at_s=now_s + wait_s,
    )
