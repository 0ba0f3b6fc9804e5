"""The next actions that bring a function's pods to their assignment. Pure; time is an argument.

A serving pod is removed only after its replacement serves, unless the replacement needs its room first.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from combofunc.planner.model import Size
from combofunc.pods.actions import Action, Create, Delete, Drain, Mark, Release, Undrain
from combofunc.pods.assignment import Assignment, NewPod
from combofunc.pods.memory_in_use import attainable
from combofunc.pods.pod import FunctionPod, Resizing
from combofunc.pods.pod_transitions import drain_left_s, remove_step, resize_step
from combofunc.pods.resources import of_size, requested

__all__ = ["Room", "StepContext", "Steps", "next_steps", "released"]

Json = dict[str, Any]
# While a new template needs the old pods' room, this share of the target keeps serving: 25 % may be missing,
# a Deployment's default.
_ROLLING_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class Room:
    """Free on a node now. Below 0 if pods are planned there that wait for others to leave."""

    cpu_millicores: int
    memory_bytes: int
    pods: int

    def less(self, cpu_millicores: int, memory_bytes: int, pods: int = 1) -> Room:
        return Room(self.cpu_millicores - cpu_millicores, self.memory_bytes - memory_bytes, self.pods - pods)

    @property
    def enough(self) -> bool:
        return self.cpu_millicores >= 0 and self.memory_bytes >= 0 and self.pods >= 0


@dataclass(frozen=True, slots=True)
class StepContext:
    """Further input of `next_steps`, besides the assignment and the pods."""

    template_hash: str
    container: str  # name of the sized container
    rooms: Mapping[str, Room]  # by node; everything planned there counts as used
    new_body: Callable[[NewPod], Json]  # the pod to create
    whole_pod: Callable[[Size], tuple[int, int]]  # (millicores, bytes) that a pod of this size requests
    least_memory: Mapping[str, float]  # pod's uid -> bytes; it is not shrunk below
    drain_s: float
    gate_timeout_s: float  # longest time a pod is held back for its node
    creations_fail: bool  # the API server refuses new pods
    now_s: float


@dataclass(frozen=True, slots=True)
class Steps:
    actions: tuple[Action, ...]
    waiting: str = ""  # what is not done yet, in words; empty: all pods are as assigned
    again_in_s: float = math.inf  # when time alone changes the next steps


@dataclass(slots=True)
class _Progress:
    """Collects actions and waits while the steps are worked out."""

    context: StepContext
    serving: int  # concurrency that serves after the actions so far
    actions: list[Action] = field(default_factory=list)
    waiting: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    again_in_s: float = math.inf

    def do(self, action: Action | None) -> None:
        if action is not None:
            self.actions.append(action)

    def wait(self, what: str, for_s: float = math.inf) -> None:
        self.waiting[what] += 1
        self.again_in_s = min(self.again_in_s, max(for_s, 0.0))

    def resize(self, pod: FunctionPod, size: Size) -> None:
        least_bytes = self.context.least_memory.get(pod.uid, 0.0)
        self.do(resize_step(pod, size, self.context.container, least_bytes))

    def remove(self, pod: FunctionPod, why: str) -> Action | None:
        action = remove_step(pod, self.context.drain_s, self.context.now_s, why)
        self.do(action)
        return action


def next_steps(assignment: Assignment, pods: Sequence[FunctionPod], context: StepContext) -> Steps:
    """`pods`: all of the function's pods except those on lost nodes."""
    progress = _Progress(context, sum(pod.concurrency for pod in pods if pod.serves))
    for pod in pods:
        if pod.finished and not pod.deleting:
            progress.do(Delete(pod.name, pod.uid, "it has ended"))
    left = _create(progress, assignment)
    for action in released(pods, context.rooms, context.gate_timeout_s, context.now_s):
        progress.do(action)
    full = _keep(progress, assignment, {pod.name: pod for pod in pods}, left)
    _remove(progress, assignment, pods, full)
    waiting = ", ".join(f"{count} {what}" for what, count in progress.waiting.items())
    return Steps(tuple(progress.actions), waiting, progress.again_in_s)


def released(
    pods: Iterable[FunctionPod], rooms: Mapping[str, Room], gate_timeout_s: float, now_s: float
) -> list[Action]:
    """Gates to remove: the planned node has room, or is gone, or the pod waited too long."""
    return [
        Release(pod.name, pod.uid, pod.planned_node if pod.planned_node in rooms else "")
        for pod in pods
        if pod.live and pod.gated
        if pod.planned_node not in rooms
        or rooms[pod.planned_node].enough
        or now_s - pod.created_s > gate_timeout_s
    ]


def _create(progress: _Progress, assignment: Assignment) -> dict[str, Room]:
    """Create the new pods. Returns the room left on each node then."""
    context = progress.context
    left = dict(context.rooms)
    for new in assignment.new:
        fits = True
        if new.node in left:
            left[new.node] = left[new.node].less(*context.whole_pod(new.size))
            fits = left[new.node].enough
        progress.do(Create(new.name, context.new_body(new), new.node, release=fits))
        progress.wait("to be created")
    return left


def _keep(
    progress: _Progress,
    assignment: Assignment,
    there: Mapping[str, FunctionPod],
    rooms: Mapping[str, Room],
) -> set[str]:
    """Give the pods that stay their sizes. Returns the nodes that lack room for what is assigned to them."""
    context, left = progress.context, dict(rooms)
    staying = {name: (there[name], size) for name, size in assignment.sizes.items() if name in there}
    full = set()
    shrinking: list[tuple[FunctionPod, Size]] = []
    for pod, size in staying.values():
        if not pod.live:
            continue
        if pod.draining_since_s is not None:
            progress.do(Undrain(pod.name, pod.uid))
        if not pod.ready:
            # The gate has a time limit: check every second, the resolution of API timestamps.
            progress.wait("to become Ready", 1.0 if pod.gated else math.inf)
        wanted = attainable(pod, of_size(size, context.container), context.least_memory.get(pod.uid, 0.0))
        if pod.has is not None and not pod.is_as(wanted):
            progress.wait("to be resized", 1.0)
            if pod.resizing is Resizing.DEFERRED:
                full.add(pod.node)
            elif pod.node in left:
                had = requested(pod.asked, context.container)
                more = (max(size.cpu_millicores - had[0], 0), max(size.memory_bytes - had[1], 0))
                left[pod.node] = left[pod.node].less(*more, pods=0)
        if size.concurrency < pod.concurrency:
            shrinking.append((pod, size))
        else:
            progress.resize(pod, size)
    full |= {node for node, room in left.items() if not room.enough}
    for pod, size in shrinking:
        fewer = pod.concurrency - size.concurrency if pod.serves else 0
        if progress.serving - fewer >= assignment.goal or pod.node in full:
            progress.serving -= fewer
            progress.resize(pod, size)
        else:
            progress.wait("to be resized")
    return full


def _remove(progress: _Progress, assignment: Assignment, pods: Sequence[FunctionPod], full: set[str]) -> None:
    context = progress.context
    outdated = [pod for pod in pods if pod.template != context.template_hash and pod.live]
    leaving = [pod for pod in pods if pod.name in assignment.leaving and pod.live]
    floor = assignment.goal
    # A short plan may lack the room of the old pods. Removing them is no help if new pods are refused.
    rolling = assignment.short and not context.creations_fail
    if outdated:
        floor = math.floor(_ROLLING_SHARE * assignment.target) if rolling else assignment.target
    for pod in sorted(leaving, key=_removal_order):
        _remove_one(progress, pod, assignment.goal, pod.node in full, "the plan does not need it")
    for pod in sorted(outdated, key=_removal_order):
        _remove_one(progress, pod, floor, False, "its template is not the current one")
    if outdated and rolling and not _in_progress(progress, assignment, pods):
        pod = min(outdated, key=_removal_order)  # at least one, or a full cluster would never roll
        progress.remove(pod, "its template is not the current one")


def _removal_order(pod: FunctionPod) -> tuple[bool, bool, int, str]:
    return pod.draining_since_s is None, pod.ready, pod.concurrency, pod.name


def _remove_one(progress: _Progress, pod: FunctionPod, floor: int, room_needed: bool, why: str) -> None:
    """Remove the pod if `floor` still serves without it, or if its room is needed."""
    fewer = pod.concurrency if pod.serves else 0
    if progress.serving - fewer < floor and fewer and not room_needed:
        progress.wait("to be drained")
        return
    progress.serving -= fewer
    if not isinstance(progress.remove(pod, why), Delete):
        progress.wait("to drain", drain_left_s(pod, progress.context.drain_s, progress.context.now_s))


def _in_progress(progress: _Progress, assignment: Assignment, pods: Sequence[FunctionPod]) -> bool:
    """Whether something under way may free room or serve soon."""
    acting = any(isinstance(action, Create | Delete | Drain | Mark) for action in progress.actions)
    return acting or any(
        pod.deleting or pod.draining_since_s is not None or (pod.name in assignment.sizes and not pod.ready)
        for pod in pods
    )
