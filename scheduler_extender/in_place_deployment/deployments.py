"""InPlaceDeployments as the loop sees them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from scheduler_extender.function_pods.actions import Action, Resize
from scheduler_extender.function_pods.actuator import Done
from scheduler_extender.function_pods.body import Owner, pod_body
from scheduler_extender.function_pods.loop import Work
from scheduler_extender.function_pods.pod_table import PodTable
from scheduler_extender.in_place_deployment import rollout, status
from scheduler_extender.in_place_deployment.spec import (
    DEPLOYMENT_LABEL,
    PATH,
    InPlaceDeployment,
    SpecError,
    read,
)
from surgekit.conditions import differs

__all__ = ["InPlaceDeployments", "body_of"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0


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


class InPlaceDeployments:
    def __init__(self, pods: PodTable, deferred_s: float) -> None:
        """`deferred_s`: beyond spec.drain, how long a resize may wait for room."""
        self._pods, self._deferred_s = pods, deferred_s
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
        before = (obj.get("status") or {}) | known.written
        try:
            deployment = read(obj)
        except SpecError as error:
            return self._work(
                obj, known, before, status.invalid_status(obj | {"status": before}, error, now_s)
            )
        pods = self._pods.of(uid)
        if deployment.generation != known.failed_generation:
            # What was refused may be wanted no more.
            known.refused, known.failure, known.retry_at_s = frozenset(), "", 0.0
        deferred_before_s = now_s - self._deferred_s - deployment.drain_s
        last = known.overdue
        known.overdue = (
            "" if deployment.paused else rollout.overdue(deployment, pods, last, deferred_before_s)
        )
        there = rollout.counts(deployment, pods, known.overdue)
        replaced = known.refused | {known.overdue}
        steps = rollout.next_steps(deployment, pods, replaced, lambda name: body_of(deployment, name), now_s)
        held_s = known.retry_at_s - now_s
        if held_s <= 0 and not steps.actions:
            known.failure = ""  # what failed is not wanted any more, or came about: the answer was lost
        patch = status.status_of(deployment, before, there, steps.waiting, known.failure, now_s)
        if deployment.paused or held_s > 0:
            wait_s = held_s if held_s > 0 else math.inf
            return self._work(obj, known, before, patch, again_in_s=wait_s)
        if steps.actions:
            kinds = [type(action).__name__ for action in steps.actions]
            done = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
            log.info("steps", namespace=deployment.namespace, deployment=deployment.name, decision=done)
        return self._work(obj, known, before, patch, steps.actions, steps.again_in_s)

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
        known.retry_at_s = time.time() + min(_FIRST_WAIT_S * 2.0 ** (known.failures - 1), _LONGEST_WAIT_S)
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
    ) -> Work:
        metadata = obj["metadata"]
        group = PATH.rpartition("/")[0]
        path = f"{group}/namespaces/{metadata['namespace']}/inplacedeployments/{metadata['name']}"
        changed = differs(before, patch)
        if changed:
            known.written = known.written | patch
        body = {"metadata": {"uid": metadata["uid"]}, "status": patch}
        return Work(metadata["namespace"], actions, (path, body) if changed else None, again_in_s=again_in_s)


def body_of(deployment: InPlaceDeployment, name: str) -> Json:
    owner = Owner(
        "surgekit.dev/v1alpha1", "InPlaceDeployment", deployment.name, deployment.uid, DEPLOYMENT_LABEL
    )
    return pod_body(deployment.template, deployment.template_hash, owner, name, {}, {}, {}, gated=False)
