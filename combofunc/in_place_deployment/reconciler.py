"""InPlaceDeployments as the loop sees them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from combofunc.actuator import Done
from combofunc.in_place_deployment import rollout, status
from combofunc.in_place_deployment.spec import (
    IN_PLACE_DEPLOYMENTS,
    InPlaceDeployment,
    SpecError,
    read,
)
from combofunc.labels import DEPLOYMENT_LABEL
from combofunc.pods.actions import Action, Resize
from combofunc.pods.body import Owner, pod_body
from combofunc.pods.memory_in_use import (
    AGAIN_S,
    MemoryUse,
    Refused,
    least_memory,
    noting,
    unknown,
    until_s,
)
from combofunc.pods.pod_table import PodTable
from combofunc.work_loop import Work
from surgekit.kube.conditions import differs, status_before
from surgekit.kube.events import Events
from surgekit.process.back_off import back_off_s

__all__ = ["InPlaceDeployments", "body_of"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0
_LISTED = 5  # pods in an event


@dataclass(slots=True)
class _Known:
    """Of one in this term."""

    written: Json = field(default_factory=dict)  # of the status, before the watch tells of it
    failure: str = ""
    failures: int = 0
    failed_generation: int = 0
    retry_at_s: float = 0.0
    refused: frozenset[str] = frozenset()  # uids of pods that the API server does not let be resized so
    overdue: str = ""  # uid of the pod that waited too long for its resize and is replaced
    in_use: Mapping[str, Refused] = field(default_factory=dict)  # by pod's uid: memory it would not give up
    keeping: frozenset[str] = frozenset()  # pods told of that keep memory


class InPlaceDeployments:
    def __init__(
        self, pods: PodTable, deferred_s: float, events: Events, memory_use: MemoryUse = unknown
    ) -> None:
        """`deferred_s`: beyond spec.drain, how long a resize may wait for room."""
        self._pods, self._deferred_s = pods, deferred_s
        self._events, self._memory_use = events, memory_use
        self.objects: dict[str, Json] = {}  # by uid
        self._known: dict[str, _Known] = {}

    def reset(self) -> None:
        self._known.clear()

    def drop(self, uid: str) -> None:
        self.objects.pop(uid, None)
        self._known.pop(uid, None)

    def look(self, uid: str, now_s: float) -> Work | None:
        obj = self.objects.get(uid)
        if obj is None:
            return None
        known = self._known.setdefault(uid, _Known())
        before = status_before(obj) | known.written
        try:
            deployment = read(obj)
        except SpecError as error:
            return self._work(
                obj, known, before, status.invalid_status(obj | {"status": before}, error, now_s)
            )
        pods = self._pods.of(deployment.namespace, uid)
        if unread := self._pods.unread(deployment.namespace, uid):
            # A rollout without them would replace pods that are there.
            there = rollout.counts(deployment, pods)
            why = f"{len(unread)} of its pods cannot be read, {unread[0]} for one; pods stay as they are"
            return self._work(obj, known, before, status.status_of(deployment, before, there, "", why, now_s))
        if deployment.generation != known.failed_generation:
            # What was refused may be wanted no more.
            known.refused, known.failure, known.retry_at_s = frozenset(), "", 0.0
        deferred_before_s = now_s - self._deferred_s - deployment.drain_s
        last = known.overdue
        known.overdue = (
            "" if deployment.paused else rollout.overdue(deployment, pods, last, deferred_before_s)
        )
        known.in_use = noting(known.in_use, pods, now_s)
        least = least_memory(known.in_use, pods, self._memory_use(deployment.namespace), now_s)
        there = rollout.counts(deployment, pods, known.overdue, least)
        replaced = known.refused | {known.overdue}
        steps = rollout.next_steps(
            deployment, pods, replaced, lambda name: body_of(deployment, name), now_s, least
        )
        event = self._kept_memory(obj["metadata"], known, rollout.keeping_memory(deployment, pods, least))
        held_s = known.retry_at_s - now_s
        if held_s <= 0 and not steps.actions:
            known.failure = ""  # what failed is not wanted any more, or came about: the answer was lost
        patch = status.status_of(deployment, before, there, steps.waiting, known.failure, now_s)
        if deployment.paused or held_s > 0:
            wait_s = held_s if held_s > 0 else math.inf
            return self._work(obj, known, before, patch, again_in_s=wait_s, event=event)
        if steps.actions:
            kinds = [type(action).__name__ for action in steps.actions]
            done = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
            log.info("steps", namespace=deployment.namespace, deployment=deployment.name, decision=done)
        again_in_s = min(steps.again_in_s, until_s(known.in_use, now_s) - now_s)
        again_in_s = min(again_in_s, AGAIN_S) if known.keeping else again_in_s
        return self._work(obj, known, before, patch, steps.actions, again_in_s, event)

    def _kept_memory(
        self, metadata: Json, known: _Known, keeping: Sequence[str]
    ) -> Callable[[], None] | None:
        """The event of pods that use more memory than the template gives."""
        new, known.keeping = sorted(set(keeping) - known.keeping), frozenset(keeping)
        if not new:
            return None
        more = f" and {len(new) - _LISTED} more" if len(new) > _LISTED else ""
        note = (
            f"memory in use is not taken away, only cpu: {', '.join(new[:_LISTED])}{more}; asked for again "
            f"later; delete a pod to have it replaced"
        )
        return partial(self._events.post, metadata, "MemoryInUse", note, "Warning")

    def came_of(self, uid: str, done: Sequence[Done], status_failure: str) -> None:
        known = self._known.get(uid)
        if known is None:
            return
        if status_failure:
            known.written = {}
        failed = [came for came in done if came.failure]
        if not failed:
            known.failure, known.failures = ("", 0) if done else (known.failure, known.failures)
            return
        known.failures += 1
        known.failure = failed[0].failure
        known.retry_at_s = time.time() + back_off_s(known.failures, _FIRST_WAIT_S, _LONGEST_WAIT_S)
        generation = self.objects.get(uid, {}).get("metadata", {}).get("generation", 0)
        if generation != known.failed_generation:
            known.failed_generation, known.refused = generation, frozenset()
        known.refused |= {c.action.uid for c in failed if c.refused and isinstance(c.action, Resize)}
        log.warning("action failed", deployment=uid, error=known.failure, failures=len(failed))

    @staticmethod
    def _work(
        obj: Json,
        known: _Known,
        before: Json,
        patch: Json,
        actions: Sequence[Action] = (),
        again_in_s: float = math.inf,
        event: Callable[[], None] | None = None,
    ) -> Work:
        metadata = obj["metadata"]
        path = IN_PLACE_DEPLOYMENTS.path(metadata["namespace"], metadata["name"], "status")
        changed = differs(before, patch)
        if changed:
            known.written = known.written | patch
        body = {"metadata": {"uid": metadata["uid"]}, "status": patch}
        status = (path, body) if changed else None
        return Work(metadata["namespace"], actions, status, event, again_in_s)


def body_of(deployment: InPlaceDeployment, name: str) -> Json:
    owner = Owner(
        "surgekit.dev/v1alpha1", "InPlaceDeployment", deployment.name, deployment.uid, DEPLOYMENT_LABEL
    )
    return pod_body(deployment.template, deployment.template_hash, owner, name, {}, {}, {}, gated=False)
