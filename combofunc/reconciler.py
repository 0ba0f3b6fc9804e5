"""Reconciles ComboFuncs: decides, remembers, and reports in status, Events, metrics and logs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import structlog

from combofunc.actuator import ActionResult
from combofunc.metrics import ComboFuncMetrics
from combofunc.planning_desk import Desk
from combofunc.pods.actions import Create, Release, Resize
from combofunc.pods.cluster import Cluster
from combofunc.pods.memory_in_use import MemoryUse, unknown
from combofunc.pods.pod import FunctionPod
from combofunc.pods.pod_table import PodTable
from combofunc.pods.steps import released
from combofunc.reconcile import status
from combofunc.reconcile.decision import FunctionUpdate, decide
from combofunc.reconcile.function_state import FunctionState, Observation
from combofunc.reconcile.node_demand import NO_CHOICES, ChosenSizes
from combofunc.reconcile.plan_validity import REFUSED_FOR_S
from combofunc.reconcile.planner_input import pod_shape
from combofunc.reconcile.report import memory_note, moved_note, ready_concurrency, reason_changed, report
from combofunc.reconcile.spec import COMBO_FUNCS, ComboFunc, SpecError, TargetFrom, read
from combofunc.settings import Settings
from combofunc.work_loop import Work
from surgekit.decision import Decision
from surgekit.kube.conditions import differs, status_before
from surgekit.kube.events import Events
from surgekit.process.back_off import back_off_s
from surgekit.process.modes import Mode

__all__ = ["ComboFuncReconciler", "Inputs", "Targets"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
# The collector's target for a function, or why there is none.
Targets = Callable[[ComboFunc], int | str]
_Event = tuple[str, str, Literal["Normal", "Warning"]]  # reason, note, type
_STATUS_EVERY_S = 0.5  # unless a condition has another reason: somebody may wait for it
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a reconcile reads: tables that watches keep, and the latest answers of the pollers."""

    cluster: Cluster
    pods: PodTable
    targets: Targets
    memory_use: MemoryUse = unknown
    ages_s: Callable[[], Mapping[str, float]] = dict  # of the tables, by watched kind
    chosen_sizes: Callable[[str], ChosenSizes] = lambda _: NO_CHOICES  # by function's uid


class ComboFuncReconciler:
    def __init__(
        self, inputs: Inputs, settings: Settings, desk: Desk, metrics: ComboFuncMetrics, events: Events
    ) -> None:
        self._inputs, self._cluster = inputs, inputs.cluster
        self._settings, self._desk, self._metrics, self._events = settings, desk, metrics, events
        self.objects: dict[str, Json] = {}  # by uid
        self._states: dict[str, FunctionState] = {}

    def reset(self) -> None:
        """Forget all state: another replica led meanwhile."""
        self._states.clear()
        self._desk.reset()

    def drop(self, uid: str) -> None:
        self.objects.pop(uid, None)
        self._states.pop(uid, None)
        self._desk.cancel(uid)

    def reconcile(self, uid: str, now_s: float) -> Work | None:
        obj = self.objects.get(uid)
        if obj is None:
            return None
        namespace = obj["metadata"]["namespace"]
        table = self._inputs.pods
        pods, unreadable = table.of(namespace, uid), table.unread(namespace, uid)
        if uid not in self._states:
            self._states[uid] = _first_state(obj, pods)
        try:
            function = read(obj)
        except SpecError as error:
            return self._invalid(uid, obj, pods, error, now_s)
        if any(state.lacks_room for other, state in self._states.items() if other != uid):
            # Another function lacks room, so release idle containers.
            function = replace(function, keep_warm_s=0.0)
        target, no_data = self._target(uid, function)
        lacked_room = self._states[uid].lacks_room and not function.paused
        self._update(uid, lacks_room=lacked_room)
        seen = Observation(
            function, target, pods, now_s,
            memory_use=self._inputs.memory_use(function.namespace),
            unreadable_pods=unreadable,
            inputs_age_s=self._inputs.ages_s(),
            chosen_sizes=self._inputs.chosen_sizes(uid),
        )  # fmt: skip
        request_plan = partial(self._desk.request, uid, function.namespace)
        decision = decide(seen, self._states[uid], self._cluster, request_plan, self._settings)
        update = decision.action
        self._states[uid] = state = update.state
        if update.planning:  # the status describes a plan, so it waits too
            return Work(function.namespace, update.actions)
        if now_s < state.retry_writes_at_s and not update.replanned:
            update = _only_releases(update, state.retry_writes_at_s - now_s)
            decision = replace(decision, action=update)
        events = [
            self._plan_event(uid, function, decision),
            self._moved_event(uid, function, pods),
            self._memory_event(uid, function, memory_note(function, pods, update.least_memory)),
        ]
        self._assume(function, update)
        self._desk.cancel(uid)  # only now: the next plan must count the pods assumed above
        counted = [pod for pod in pods if not (pod.node and self._cluster.lost(pod.node))]
        self._measure_lag(uid, target, ready_concurrency(counted))
        patch, again_in_s = self._status(uid, replace(seen, pods=counted), decision, no_data)
        return Work(
            function.namespace,
            update.actions,
            (function.status_path, {"status": patch}) if patch else None,
            partial(self._post, obj["metadata"], [e for e in events if e]) if any(events) else None,
            again_in_s,
            concerns_all=self._states[uid].lacks_room and not lacked_room,  # others release idle containers
        )

    def on_results(self, uid: str, results: Sequence[ActionResult], status_failure: str) -> None:
        state = self._states.get(uid)
        if state is None:
            return
        if status_failure:
            state = self._update(uid, status_written={})  # write it again
        failed = [result for result in results if result.failure]
        for_nodes = [r for r in failed if isinstance(r.action, Create) and not r.action.node]
        if for_nodes:  # as by a quota; the plan goes on without these pods
            said = for_nodes[0].failure
            log.warning("no pod can wait for a node", function=uid, error=said)
            later = replace(state.nodes, failure=said, not_before_s=time.time() + _LONGEST_WAIT_S)
            state = self._update(uid, nodes=later)
            failed = [result for result in failed if result not in for_nodes]
        if not failed:
            if time.time() < state.retry_writes_at_s:
                return  # only releases were written meanwhile
            self._update(uid, api_failures=0, api_failure="" if results else state.api_failure)
            return
        failures = state.api_failures + 1
        retry_at_s = time.time() + back_off_s(failures, _FIRST_WAIT_S, _LONGEST_WAIT_S)
        refused = {
            result.action.uid: time.time() + REFUSED_FOR_S
            for result in failed
            if result.refused and isinstance(result.action, Resize)
        }
        log.warning("action failed", function=uid, error=failed[0].failure, failures=len(failed))
        self._update(
            uid,
            api_failures=failures,
            api_failure=failed[0].failure,
            # Plan again what the API server refused; try again what it did not answer.
            assignment=None if any(result.refused for result in failed) else state.assignment,
            retry_writes_at_s=retry_at_s,
            replan_not_before_s=retry_at_s,
            no_resize_until_s={**state.no_resize_until_s, **refused},
        )

    def _update(self, uid: str, **changes: Any) -> FunctionState:
        self._states[uid] = state = replace(self._states[uid], **changes)
        return state

    def _post(self, metadata: Json, events: Sequence[_Event]) -> None:
        for event in events:
            self._events.post(metadata, *event)

    # --- parts of `reconcile` ---

    def _invalid(
        self, uid: str, obj: Json, pods: Sequence[FunctionPod], error: SpecError, now_s: float
    ) -> Work:
        metadata = obj["metadata"]
        state = self._update(uid, lacks_room=False)
        self._desk.cancel(uid)
        before = status_before(obj) | state.status_written
        patch = status.invalid_status(obj | {"status": before}, error, now_s)
        path = COMBO_FUNCS.path(metadata["namespace"], metadata["name"], "status")
        changed = differs(before, patch)
        if changed:
            self._update(uid, status_written=state.status_written | patch)
        return Work(
            metadata["namespace"],
            released(pods, {}, 0.0, now_s),  # no pod is held back for good
            (path, {"status": patch}) if changed else None,
        )

    def _target(self, uid: str, function: ComboFunc) -> tuple[int | None, str]:
        """The target to plan for, and why the collector has none."""
        last, target, no_data = self._states[uid].target, function.target, ""
        if function.replicas is not None:
            target = sum(s.concurrency * function.replicas.get(s.name, 0) for s in function.sizes)
        elif target is None:
            found = self._inputs.targets(function)
            target, no_data = (found, "") if isinstance(found, int) else (last, found)
        if target != last:
            self._update(uid, target=target, target_changed_at_s=time.monotonic())
        return target, no_data

    def _status(
        self, uid: str, seen: Observation, decision: Decision[FunctionUpdate], no_data: str
    ) -> tuple[Json | None, float]:
        """The status to write, or None; and the seconds until the next reconcile."""
        now_s, again_in_s = seen.now_s, decision.action.again_in_s
        state = self._states[uid]
        before = status_before(self.objects[uid]) | state.status_written
        patch = report(seen, before, decision, no_data)
        if not differs(before, patch):
            return None, again_in_s
        soon = now_s - state.status_written_at_s < _STATUS_EVERY_S and not decision.action.replanned
        if soon and not reason_changed(before, patch):
            return None, min(again_in_s, state.status_written_at_s + _STATUS_EVERY_S - now_s)
        self._update(uid, status_written=state.status_written | patch, status_written_at_s=now_s)
        return patch, again_in_s

    def _plan_event(self, uid: str, function: ComboFunc, decision: Decision[FunctionUpdate]) -> _Event | None:
        """Count and log a new plan. Returns its Event unless the last one said the same."""
        if not decision.action.replanned:
            return None
        state, why = decision.action.state, "; ".join(decision.reasons)
        plan, failure, usable = state.plan, state.planner_failure, state.sizes_usable
        # If no size fits any node, other functions cannot help by releasing room.
        lacks_room = bool(plan and plan.shortage and usable and (usable.holds or plan.concurrency))
        self._update(uid, lacks_room=lacks_room and function.mode is Mode.ENFORCE)
        outcome = "failed" if failure or plan is None else "shortage" if plan.shortage else "planned"
        self._metrics.plans.labels(outcome).inc()
        self._metrics.plan_seconds.observe(state.planning_s)
        said = status.planned(function, plan, failure, rolling=bool(state.outdated_pods))
        log.info(
            "plan", namespace=function.namespace, function=function.name, mode=str(function.mode),
            decision=said.message, why=why,
            duration_ms=round(state.planning_s * 1000, 1),
        )  # fmt: skip
        if self._states[uid].plan_event == said.message:
            return None
        self._update(uid, plan_event=said.message)
        kind: Literal["Normal", "Warning"] = "Normal" if outcome == "planned" else "Warning"
        return said.reason, f"{said.message} (because {why})", kind

    def _moved_event(self, uid: str, function: ComboFunc, pods: Sequence[FunctionPod]) -> _Event | None:
        """The Event for pods that the scheduler bound to another node than planned."""
        moved, known = _moved(pods), self._states[uid].moved_pods
        self._update(uid, moved_pods=frozenset(moved))
        new = [pod for name, pod in moved.items() if name not in known]
        if not new:
            return None
        self._metrics.placed_elsewhere.inc(len(new))
        note = moved_note(new)
        log.info("placed elsewhere", namespace=function.namespace, function=function.name, decision=note)
        return "PlacedElsewhere", note, "Warning"

    def _memory_event(self, uid: str, function: ComboFunc, note: str) -> _Event | None:
        """The Event for pods that keep more memory than their size has."""
        last = self._states[uid].memory_event
        self._update(uid, memory_event=note)
        if not note or note == last:
            return None
        log.info("memory in use", namespace=function.namespace, function=function.name, decision=note)
        return "MemoryInUse", note, "Warning"

    def _measure_lag(self, uid: str, target: int | None, ready: int) -> None:
        changed_at_s = self._states[uid].target_changed_at_s
        if changed_at_s is not None and target is not None and ready >= target:
            self._metrics.lag_seconds.observe(time.monotonic() - changed_at_s)
            self._update(uid, target_changed_at_s=None)

    def _assume(self, function: ComboFunc, update: FunctionUpdate) -> None:
        """Count the pods about to be created, so that the next plan does not use the same room."""
        created = [action for action in update.actions if isinstance(action, Create) and action.node]
        if not created or update.state.assignment is None:
            return
        shape, now_s = pod_shape(function), time.monotonic()
        sizes = {new.name: new.size for new in update.state.assignment.new}
        for action in created:
            cpu, memory = shape.whole(sizes[action.pod])
            self._cluster.assume(action.key, action.node, cpu, memory, now_s)

    def collected(self) -> dict[str, ComboFunc]:
        """By uid, the functions whose target the collector owns."""
        found = {}
        for uid, obj in self.objects.items():
            if (obj.get("spec") or {}).get("targetFrom") == TargetFrom.COLLECTOR:
                with contextlib.suppress(SpecError):
                    found[uid] = read(obj)
        return found

    @property
    def shortage(self) -> int:
        return sum(state.plan.shortage for state in self._states.values() if state.plan)


def _first_state(obj: Json, pods: Sequence[FunctionPod]) -> FunctionState:
    """The last target holds until the collector answers. Moved pods were reported by the last leader."""
    target = status_before(obj).get("targetConcurrency")
    return FunctionState(
        target=target if isinstance(target, int) else None, moved_pods=frozenset(_moved(pods))
    )


def _moved(pods: Sequence[FunctionPod]) -> dict[str, FunctionPod]:
    return {pod.name: pod for pod in pods if moved_note([pod])}


def _only_releases(update: FunctionUpdate, for_s: float) -> FunctionUpdate:
    """Back off after a failure. Gates still come off, and the status is still written."""
    releases = tuple(action for action in update.actions if isinstance(action, Release))
    return replace(update, actions=releases, again_in_s=min(update.again_in_s, for_s))
