"""Reconciles InPlaceDeployments: decides, remembers, and reports in status, Events and logs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import structlog

from combofunc.actuator import ActionResult
from combofunc.in_place_deployment import rollout, status
from combofunc.in_place_deployment.spec import (
    IN_PLACE_DEPLOYMENTS,
    InPlaceDeployment,
    SpecError,
    read,
)
from combofunc.labels import DEPLOYMENT_LABEL
from combofunc.pods.actions import Resize
from combofunc.pods.body import Owner, pod_body
from combofunc.pods.memory_in_use import (
    RECHECK_S,
    MemoryUse,
    Refused,
    least_memory,
    next_try_s,
    unknown,
    with_refusals,
)
from combofunc.pods.pod_table import PodTable
from combofunc.pods.steps import Steps
from combofunc.work_loop import Work
from surgekit.kube.conditions import differs, status_before
from surgekit.kube.events import Events
from surgekit.process.back_off import back_off_s

__all__ = ["InPlaceDeploymentReconciler", "new_pod_body"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0
_LISTED = 5  # pods in an event
_NO_STEPS = Steps(())


@dataclass(slots=True)
class _DeploymentState:
    """Per-deployment state while this replica leads."""

    status_written: Json = field(default_factory=dict)  # fields the watch may not show yet
    api_failure: str = ""
    api_failures: int = 0  # in a row
    failed_generation: int = 0
    retry_at_s: float = 0.0
    refused: frozenset[str] = frozenset()  # uids of pods whose resize the API server refused
    overdue: str = ""  # uid of the pod that is replaced because its resize waited too long
    memory_refusals: Mapping[str, Refused] = field(default_factory=dict)  # pod's uid -> memory it keeps
    keeping_memory: frozenset[str] = frozenset()  # names of pods reported to keep memory


class InPlaceDeploymentReconciler:
    def __init__(
        self,
        pods: PodTable,
        resize_wait_limit_s: float,
        events: Events,
        memory_use: MemoryUse = unknown,
        ages_s: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        """`resize_wait_limit_s`: how long a resize may wait for room, beyond spec.drain. `ages_s`: of the
        tables, by watched kind."""
        self._pods, self._resize_wait_limit_s, self._events = pods, resize_wait_limit_s, events
        self._memory_use, self._ages_s = memory_use, ages_s
        self.objects: dict[str, Json] = {}  # by uid
        self._states: dict[str, _DeploymentState] = {}

    def reset(self) -> None:
        self._states.clear()

    def drop(self, uid: str) -> None:
        self.objects.pop(uid, None)
        self._states.pop(uid, None)

    def reconcile(self, uid: str, now_s: float) -> Work | None:
        obj = self.objects.get(uid)
        if obj is None:
            return None
        state = self._states.setdefault(uid, _DeploymentState())
        before = status_before(obj) | state.status_written
        try:
            deployment = read(obj)
        except SpecError as error:
            return self._work(uid, status.invalid_status(obj | {"status": before}, error, now_s))
        seen = rollout.Observation(
            deployment, self._pods.of(deployment.namespace, uid), now_s,
            unreadable_pods=self._pods.unread(deployment.namespace, uid), inputs_age_s=self._ages_s(),
        )  # fmt: skip
        if not seen.unreadable_pods:
            seen = self._with_limits(state, seen)
        decision = rollout.decide(seen, partial(new_pod_body, deployment))
        if not decision.valid:
            why = f"{decision.reasons[0]}; pods stay as they are"
            progress = status.Progress(rollout.counts(seen), failure=why)
            return self._work(uid, status.status_of(deployment, before, progress, now_s))
        steps = decision.action
        event = self._memory_event(obj["metadata"], state, rollout.keeping_memory(seen))
        held_s = state.retry_at_s - now_s
        if held_s <= 0 and not steps.actions:
            state.api_failure = ""  # no longer needed, or carried out and only the answer was lost
        progress = status.Progress(rollout.counts(seen), steps.waiting, state.api_failure)
        patch = status.status_of(deployment, before, progress, now_s)
        if deployment.paused or held_s > 0:
            return self._work(uid, patch, Steps((), again_in_s=held_s if held_s > 0 else math.inf), event)
        if steps.actions:
            kinds = [type(action).__name__ for action in steps.actions]
            done = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
            log.info("steps", namespace=deployment.namespace, deployment=deployment.name, decision=done)
        again_in_s = min(steps.again_in_s, next_try_s(state.memory_refusals, now_s) - now_s)
        again_in_s = min(again_in_s, RECHECK_S) if state.keeping_memory else again_in_s
        return self._work(uid, patch, replace(steps, again_in_s=again_in_s), event)

    def _with_limits(self, state: _DeploymentState, seen: rollout.Observation) -> rollout.Observation:
        """Add which pods cannot be resized, and how far. The state remembers it."""
        deployment, pods, now_s = seen.deployment, seen.pods, seen.now_s
        if deployment.generation != state.failed_generation:
            # The new spec may not need what was refused.
            state.refused, state.api_failure, state.retry_at_s = frozenset(), "", 0.0
        limit_s = now_s - self._resize_wait_limit_s - deployment.drain_s
        last = state.overdue
        state.overdue = "" if deployment.paused else rollout.overdue(deployment, pods, last, limit_s)
        state.memory_refusals = with_refusals(state.memory_refusals, pods, now_s)
        least = least_memory(state.memory_refusals, pods, self._memory_use(deployment.namespace), now_s)
        return replace(seen, refused=state.refused, overdue=state.overdue, least_memory=least)

    def _memory_event(
        self, metadata: Json, state: _DeploymentState, keeping: Sequence[str]
    ) -> Callable[[], None] | None:
        """The Event for pods that use more memory than the template gives."""
        new, state.keeping_memory = sorted(set(keeping) - state.keeping_memory), frozenset(keeping)
        if not new:
            return None
        more = f" and {len(new) - _LISTED} more" if len(new) > _LISTED else ""
        note = (
            f"pods keep memory that they use and give up only cpu: {', '.join(new[:_LISTED])}{more}; tried "
            f"again later; delete a pod to replace it"
        )
        return partial(self._events.post, metadata, "MemoryInUse", note, "Warning")

    def on_results(self, uid: str, results: Sequence[ActionResult], status_failure: str) -> None:
        state = self._states.get(uid)
        if state is None:
            return
        if status_failure:
            state.status_written = {}
        failed = [result for result in results if result.failure]
        if not failed:
            state.api_failure, state.api_failures = (
                ("", 0) if results else (state.api_failure, state.api_failures)
            )
            return
        state.api_failures += 1
        state.api_failure = failed[0].failure
        state.retry_at_s = time.time() + back_off_s(state.api_failures, _FIRST_WAIT_S, _LONGEST_WAIT_S)
        generation = self.objects.get(uid, {}).get("metadata", {}).get("generation", 0)
        if generation != state.failed_generation:
            state.failed_generation, state.refused = generation, frozenset()
        state.refused |= {c.action.uid for c in failed if c.refused and isinstance(c.action, Resize)}
        log.warning("action failed", deployment=uid, error=state.api_failure, failures=len(failed))

    def _work(
        self, uid: str, patch: Json, steps: Steps = _NO_STEPS, event: Callable[[], None] | None = None
    ) -> Work:
        """`patch`: the status; it is written only if it differs from the last one."""
        obj, state = self.objects[uid], self._states[uid]
        metadata = obj["metadata"]
        path = IN_PLACE_DEPLOYMENTS.path(metadata["namespace"], metadata["name"], "status")
        changed = differs(status_before(obj) | state.status_written, patch)
        if changed:
            state.status_written = state.status_written | patch
        status = (path, {"status": patch}) if changed else None
        return Work(metadata["namespace"], steps.actions, status, event, steps.again_in_s)


def new_pod_body(deployment: InPlaceDeployment, name: str) -> Json:
    owner = Owner(
        "surgekit.dev/v1alpha1", "InPlaceDeployment", deployment.name, deployment.uid, DEPLOYMENT_LABEL
    )
    return pod_body(
        deployment.template, deployment.template_hash, owner, name,
        labels={}, annotations={}, resources={}, gated=False,
    )  # fmt: skip
