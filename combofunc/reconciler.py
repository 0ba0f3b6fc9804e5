"""ComboFuncs as the loop sees them: looks at one, remembers what the term needs, says it in the status."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import structlog

from combofunc.actuator import Done
from combofunc.metrics import ComboFuncMetrics
from combofunc.planning_desk import Desk
from combofunc.pods.actions import Create, Release, Resize
from combofunc.pods.cluster import Cluster
from combofunc.pods.memory_in_use import MemoryUse, unknown
from combofunc.pods.pod import FunctionPod
from combofunc.pods.pod_table import PodTable
from combofunc.pods.steps import released
from combofunc.reconcile import status
from combofunc.reconcile.decision import Decision, decide
from combofunc.reconcile.plan_validity import REFUSED_FOR_S, Memory
from combofunc.reconcile.planner_input import shape_of
from combofunc.reconcile.report import elsewhere, keeping_memory, ready_concurrency, report, turned
from combofunc.reconcile.spec import COMBO_FUNCS, ComboFunc, SpecError, TargetFrom, read
from combofunc.settings import Settings
from combofunc.work_loop import Work
from surgekit.kube.conditions import differs, status_before
from surgekit.kube.events import Events
from surgekit.process.back_off import back_off_s
from surgekit.process.modes import Mode

__all__ = ["ComboFuncs", "Targets"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
# What the collector knows of a function: the target, or why there is none.
Targets = Callable[[ComboFunc], int | str]
_Told = tuple[str, str, Literal["Normal", "Warning"]]  # of an event: reason, note, type
_STATUS_EVERY_S = 0.5  # unless a condition turns, which somebody may wait for
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0


@dataclass(slots=True)
class _Known:
    """Of one function in this term."""

    memory: Memory
    written: Json  # of the status, before the watch tells of it
    written_at_s: float = 0.0
    target: int | None = None
    changed_at_s: float | None = None  # the target; None: as much has been Ready since
    elsewhere: frozenset[str] = frozenset()  # pods told of that went to another node
    keeping: str = ""  # pods told of that keep memory
    failures: int = 0
    retry_at_s: float = 0.0
    told: str = ""  # the last plan's event
    short: bool = False  # of room that others may have


class ComboFuncs:
    def __init__(
        self,
        cluster: Cluster,
        pods: PodTable,
        settings: Settings,
        metrics: ComboFuncMetrics,
        desk: Desk,
        targets: Targets,
        events: Events,
        memory_use: MemoryUse = unknown,
    ) -> None:
        self._cluster, self._pods, self._settings, self._metrics = cluster, pods, settings, metrics
        self._desk, self._targets, self._events = desk, targets, events
        self._memory_use = memory_use
        self.objects: dict[str, Json] = {}  # by uid
        self._known: dict[str, _Known] = {}

    def reset(self) -> None:
        """Another replica has acted meanwhile."""
        self._known.clear()
        self._desk.reset()

    def drop(self, uid: str) -> None:
        self.objects.pop(uid, None)
        self._known.pop(uid, None)
        self._desk.leave(uid)

    def look(self, uid: str, now_s: float) -> Work | None:
        obj = self.objects.get(uid)
        if obj is None:
            return None
        namespace = obj["metadata"]["namespace"]
        pods, unread = self._pods.of(namespace, uid), self._pods.unread(namespace, uid)
        if uid not in self._known:
            # What was last collected stands until it is known anew.
            stood = status_before(obj).get("targetConcurrency")
            self._known[uid] = _Known(
                Memory(),
                {},
                target=stood if isinstance(stood, int) else None,
                elsewhere=frozenset(
                    pod.name for pod in pods if elsewhere([pod])
                ),  # told of by the one before
            )
        known = self._known[uid]
        try:
            function = read(obj)
        except SpecError as error:
            return self._invalid(obj, known, pods, error, now_s)
        if any(other.short for other in self._known.values() if other is not known):
            function = replace(function, keep_warm_s=0.0)  # what nobody needs is room for who is short
        target, no_data = self._target(function, known)
        known.short = known.short and not function.paused
        was_short = known.short
        ask = partial(self._desk.ask, uid, function.namespace)
        decision = decide(
            function, target, pods, known.memory, self._cluster, ask, self._settings, now_s,
            self._memory_use(function.namespace), unread,
        )  # fmt: skip
        if decision.planning:
            known.memory = decision.memory
            # The status speaks of a plan: it waits as well.
            return Work(function.namespace, decision.actions)
        if now_s < known.retry_at_s and not decision.why:
            decision = _held(decision, known.retry_at_s - now_s)
        told = [
            self._note(function, known, decision),
            self._moved(function, known, pods),
            self._kept_memory(function, known, keeping_memory(function, pods, decision.least_memory)),
        ]
        self._presume(function, decision)
        self._desk.leave(uid)  # after what this plan is about to create was counted
        counted = [pod for pod in pods if not (pod.node and self._cluster.lost(pod.node))]
        self._note_lag(known, target, ready_concurrency(counted))
        before = status_before(obj) | known.written
        said = report(function, before, decision, counted, target, no_data, now_s)
        patch = said if differs(before, said) else None
        again_in_s = decision.again_in_s
        soon = now_s - known.written_at_s < _STATUS_EVERY_S and not decision.why
        if patch and soon and not turned(before, patch):
            again_in_s, patch = min(again_in_s, known.written_at_s + _STATUS_EVERY_S - now_s), None
        if patch:
            known.written, known.written_at_s = known.written | patch, now_s
        body = {"metadata": {"uid": uid}, "status": patch}
        return Work(
            function.namespace,
            decision.actions,
            (function.status_path, body) if patch else None,
            partial(self._post, obj["metadata"], [one for one in told if one]) if any(told) else None,
            again_in_s,
            concerns_all=known.short and not was_short,  # who keeps something warm makes room
        )

    def came_of(self, uid: str, done: Sequence[Done], status_failure: str) -> None:
        known = self._known.get(uid)
        if known is None:
            return
        if status_failure:
            known.written = {}  # write it again
        failed = [came for came in done if came.failure]
        if not failed:
            if time.time() < known.retry_at_s:
                return  # only what may be done meanwhile was
            known.failures = 0
            known.memory = (
                replace(known.memory, trouble="") if known.memory.trouble and done else known.memory
            )
            return
        known.failures += 1
        known.retry_at_s = time.time() + back_off_s(known.failures, _FIRST_WAIT_S, _LONGEST_WAIT_S)
        refused = {
            came.action.uid: time.time() + REFUSED_FOR_S
            for came in failed
            if came.refused and isinstance(came.action, Resize)
        }
        log.warning("action failed", function=uid, error=failed[0].failure, failures=len(failed))
        # What the API server will not have is planned anew; what it did not answer is tried again.
        assignment = None if any(came.refused for came in failed) else known.memory.assignment
        known.memory = replace(
            known.memory,
            trouble=failed[0].failure,
            assignment=assignment,
            not_before_s=known.retry_at_s,
            refused={**known.memory.refused, **refused},
        )

    def _post(self, metadata: Json, told: Sequence[_Told]) -> None:
        for one in told:
            self._events.post(metadata, *one)

    # --- parts of a look ---

    def _invalid(
        self, obj: Json, known: _Known, pods: Sequence[FunctionPod], error: SpecError, now_s: float
    ) -> Work:
        metadata = obj["metadata"]
        known.short = False
        self._desk.leave(metadata["uid"])
        before = status_before(obj) | known.written
        patch = status.invalid_status(obj | {"status": before}, error, now_s)
        path = COMBO_FUNCS.path(metadata["namespace"], metadata["name"], "status")
        body = {"metadata": {"uid": metadata["uid"]}, "status": patch}
        changed = differs(before, patch)
        if changed:
            known.written = known.written | patch
        return Work(
            metadata["namespace"],
            released(pods, {}, 0.0, now_s),  # whatever else: nobody is held back because of us
            (path, body) if changed else None,
        )

    def _target(self, function: ComboFunc, known: _Known) -> tuple[int | None, str]:
        """What is planned for, and why the collector does not know better."""
        target, no_data = function.target, ""
        if function.replicas is not None:
            target = sum(s.concurrency * function.replicas.get(s.name, 0) for s in function.sizes)
        elif target is None:
            found = self._targets(function)
            target, no_data = (found, "") if isinstance(found, int) else (known.target, found)
        if target != known.target:
            known.target, known.changed_at_s = target, time.monotonic()
        return target, no_data

    def _note(self, function: ComboFunc, known: _Known, decision: Decision) -> _Told | None:
        """The event of a new plan."""
        known.memory = decision.memory
        if not decision.why:
            return None
        plan, failure, usable = decision.memory.plan, decision.memory.failure, decision.memory.usable
        # Of what fits no node at all, nobody has the room.
        lacks_room = bool(plan and plan.shortage and usable and (usable.holds or plan.concurrency))
        known.short = lacks_room and function.mode is Mode.ENFORCE
        outcome = "failed" if failure or plan is None else "shortage" if plan.shortage else "planned"
        self._metrics.plans.labels(outcome).inc()
        self._metrics.plan_seconds.observe(decision.memory.took_s)
        said = status.planned(function, plan, failure, rolling=bool(decision.memory.outdated))
        log.info(
            "plan", namespace=function.namespace, function=function.name, mode=str(function.mode),
            decision=said.message, why=decision.why, duration_ms=round(decision.memory.took_s * 1000, 1),
        )  # fmt: skip
        if known.told == said.message:
            return None
        known.told = said.message
        kind: Literal["Normal", "Warning"] = "Normal" if outcome == "planned" else "Warning"
        return said.reason, f"{said.message} (because {decision.why})", kind

    def _moved(self, function: ComboFunc, known: _Known, pods: Sequence[FunctionPod]) -> _Told | None:
        """The event of pods that the scheduler bound to another node than planned."""
        moved = {pod.name: pod for pod in pods if elsewhere([pod])}
        new = [pod for name, pod in moved.items() if name not in known.elsewhere]
        known.elsewhere = frozenset(moved)
        if not new:
            return None
        self._metrics.placed_elsewhere.inc(len(new))
        words = elsewhere(new)
        log.info("placed elsewhere", namespace=function.namespace, function=function.name, decision=words)
        return "PlacedElsewhere", words, "Warning"

    def _kept_memory(self, function: ComboFunc, known: _Known, words: str) -> _Told | None:
        """The event of pods that use memory their size does not have."""
        told, known.keeping = known.keeping, words
        if not words or words == told:
            return None
        log.info("memory in use", namespace=function.namespace, function=function.name, decision=words)
        return "MemoryInUse", words, "Warning"

    def _note_lag(self, known: _Known, target: int | None, ready: int) -> None:
        if known.changed_at_s is not None and target is not None and ready >= target:
            self._metrics.lag_seconds.observe(time.monotonic() - known.changed_at_s)
            known.changed_at_s = None

    def _presume(self, function: ComboFunc, decision: Decision) -> None:
        """So that the next function to be planned does not take the same room."""
        created = [action for action in decision.actions if isinstance(action, Create)]
        if not created or decision.memory.assignment is None:
            return
        shape, now_s = shape_of(function), time.monotonic()
        sizes = {new.name: new.size for new in decision.memory.assignment.new}
        for action in created:
            cpu, memory = shape.whole(sizes[action.pod])
            self._cluster.presume(action.key, action.node, cpu, memory, now_s)

    def collected(self) -> dict[str, ComboFunc]:
        """By uid: those whose target the collector owns."""
        found = {}
        for uid, obj in self.objects.items():
            if (obj.get("spec") or {}).get("targetFrom") == TargetFrom.COLLECTOR:
                with contextlib.suppress(SpecError):
                    found[uid] = read(obj)
        return found

    @property
    def shortage(self) -> int:
        return sum(known.memory.plan.shortage for known in self._known.values() if known.memory.plan)


def _held(decision: Decision, for_s: float) -> Decision:
    """What failed waits. Nobody is held back because of us, though, and the status goes on."""
    released = tuple(action for action in decision.actions if isinstance(action, Release))
    return replace(decision, actions=released, again_in_s=min(decision.again_in_s, for_s))
