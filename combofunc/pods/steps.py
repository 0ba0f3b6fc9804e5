"""What to do next so that a function's pods become what was assigned. Pure.

Nothing that serves is taken away before what replaces it serves, unless its room is needed first.
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
from combofunc.pods.pod_transitions import leave, left_s
from combofunc.pods.resize_steps import become
from combofunc.pods.resources import of_size, requested

__all__ = ["Room", "Steps", "next_steps", "released"]

Json = dict[str, Any]
# Of the target serves at least this much while a new template needs the room of the old one: 25 % may be
# missing, as in a Deployment by default.
_ROLLING_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class Room:
    """Left on a node now; below 0 where pods are planned that wait for others to go."""

    cpu_millicores: int
    memory_bytes: int
    pods: int

    def less(self, cpu_millicores: int, memory_bytes: int, pods: int = 1) -> Room:
        return Room(self.cpu_millicores - cpu_millicores, self.memory_bytes - memory_bytes, self.pods - pods)

    @property
    def enough(self) -> bool:
        return self.cpu_millicores >= 0 and self.memory_bytes >= 0 and self.pods >= 0


@dataclass(frozen=True, slots=True)
class Steps:
    actions: tuple[Action, ...]
    waiting: str = ""  # what is still to come, in words; empty: all is as assigned
    again_in_s: float = math.inf  # when time alone changes what is next


@dataclass(slots=True)
class _Course:
    """What is found out on the way."""

    now_s: float
    drain_s: float
    serving: int
    actions: list[Action] = field(default_factory=list)
    waiting: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    again_in_s: float = math.inf

    def do(self, action: Action | None) -> None:
        if action is not None:
            self.actions.append(action)

    def wait(self, what: str, for_s: float = math.inf) -> None:
        self.waiting[what] += 1
        self.again_in_s = min(self.again_in_s, max(for_s, 0.0))


def next_steps(
    assignment: Assignment,
    pods: Sequence[FunctionPod],
    template: str,
    container: str,
    least_memory: Mapping[str, float],
    rooms: Mapping[str, Room],
    make: Callable[[NewPod], Json],
    whole: Callable[[Size], tuple[int, int]],
    drain_s: float,
    gate_s: float,
    creations_fail: bool,
    now_s: float,
) -> Steps:
    """`pods`: all that count. `least_memory`: bytes by pod's uid, not asked to go below. `rooms`: by
    node, with all that is planned there counted as used. `whole`: what a pod of a size asks for, (millicores,
    bytes). `gate_s`: the longest a pod is held back for its node."""
    course = _Course(now_s, drain_s, sum(pod.concurrency for pod in pods if pod.serves))
    there = {pod.name: pod for pod in pods}
    for pod in pods:
        if pod.finished and not pod.deleting:
            course.do(Delete(pod.name, pod.uid, "it has ended"))
    left = _create(course, assignment, rooms, make, whole)
    for action in released(pods, rooms, gate_s, now_s):
        course.do(action)
    needy = _stay(course, assignment, there, container, least_memory, left)
    _remove(course, assignment, pods, template, needy, creations_fail)
    waiting = ", ".join(f"{count} {what}" for what, count in course.waiting.items())
    return Steps(tuple(course.actions), waiting, course.again_in_s)


def released(
    pods: Iterable[FunctionPod], rooms: Mapping[str, Room], gate_s: float, now_s: float
) -> list[Action]:
    """Gates that are to come off: their node has the room, is not known (any more), or took too long."""
    return [
        Release(pod.name, pod.uid, pod.planned_node if pod.planned_node in rooms else "")
        for pod in pods
        if pod.live and pod.gated
        if pod.planned_node not in rooms or rooms[pod.planned_node].enough or now_s - pod.created_s > gate_s
    ]


def _create(
    course: _Course,
    assignment: Assignment,
    rooms: Mapping[str, Room],
    make: Callable[[NewPod], Json],
    whole: Callable[[Size], tuple[int, int]],
) -> dict[str, Room]:
    """What is left of the rooms then."""
    left = dict(rooms)
    for new in assignment.new:
        fits = True
        if new.node in left:
            left[new.node] = left[new.node].less(*whole(new.size))
            fits = left[new.node].enough
        course.do(Create(new.name, make(new), new.node, release=fits))
        course.wait("to be created")
    return left


def _stay(
    course: _Course,
    assignment: Assignment,
    there: Mapping[str, FunctionPod],
    container: str,
    least_memory: Mapping[str, float],
    rooms: Mapping[str, Room],
) -> set[str]:
    """The pods that stay become their sizes. Which nodes lack room for what is to be there."""
    left = dict(rooms)
    becoming = {name: (there[name], size) for name, size in assignment.sizes.items() if name in there}
    needy = set()
    shrinking: list[tuple[FunctionPod, Size]] = []
    for pod, size in becoming.values():
        if not pod.live:
            continue
        if pod.draining_since_s is not None:
            course.do(Undrain(pod.name, pod.uid))
        if not pod.ready:
            # The gate's end is a time of its own; looked at every second, as clocks of seconds are.
            course.wait("to become Ready", 1.0 if pod.gated else math.inf)
        least_bytes = least_memory.get(pod.uid, 0.0)
        if pod.has is not None and not pod.is_as(attainable(pod, of_size(size, container), least_bytes)):
            course.wait("to be resized", 1.0)
            if pod.resizing is Resizing.DEFERRED:
                needy.add(pod.node)
            elif pod.node in left:
                had = requested(pod.asked, container)
                more = (max(size.cpu_millicores - had[0], 0), max(size.memory_bytes - had[1], 0))
                left[pod.node] = left[pod.node].less(*more, pods=0)
        if size.concurrency < pod.concurrency:
            shrinking.append((pod, size))
        else:
            course.do(become(pod, size, container, least_bytes))
    needy |= {node for node, room in left.items() if not room.enough}
    for pod, size in shrinking:
        fewer = pod.concurrency - size.concurrency if pod.serves else 0
        if course.serving - fewer >= assignment.goal or pod.node in needy:
            course.serving -= fewer
            course.do(become(pod, size, container, least_memory.get(pod.uid, 0.0)))
        else:
            course.wait("to be resized")
    return needy


def _remove(
    course: _Course,
    assignment: Assignment,
    pods: Sequence[FunctionPod],
    template: str,
    needy: set[str],
    creations_fail: bool,
) -> None:
    outdated = [pod for pod in pods if pod.template != template and pod.live]
    leaving = [pod for pod in pods if pod.name in assignment.leaving and pod.live]
    floor = assignment.goal
    if outdated:
        # What the plan is short of may be the room of the old pods; not if new ones are refused anyway.
        rolling = assignment.short and not creations_fail
        floor = math.floor(_ROLLING_SHARE * assignment.target) if rolling else assignment.target
    for pod in sorted(leaving, key=_first_to_go):
        _let_go(course, pod, assignment.goal, pod.node in needy, "the plan has no use for it")
    for pod in sorted(outdated, key=_first_to_go):
        _let_go(course, pod, floor, False, "its template is not the current one")
    if outdated and assignment.short and not creations_fail and not _moving(course, assignment, pods):
        pod = min(outdated, key=_first_to_go)  # one at least, or a full cluster would never roll
        course.do(leave(pod, course.drain_s, course.now_s, "its template is not the current one"))


def _first_to_go(pod: FunctionPod) -> tuple[bool, bool, int, str]:
    return pod.draining_since_s is None, pod.ready, pod.concurrency, pod.name


def _let_go(course: _Course, pod: FunctionPod, floor: int, needed: bool, why: str) -> None:
    fewer = pod.concurrency if pod.serves else 0
    if course.serving - fewer < floor and fewer and not needed:
        course.wait("to be drained")
        return
    course.serving -= fewer
    action = leave(pod, course.drain_s, course.now_s, why)
    course.do(action)
    if not isinstance(action, Delete):
        course.wait("to drain", left_s(pod, course.drain_s, course.now_s))


def _moving(course: _Course, assignment: Assignment, pods: Sequence[FunctionPod]) -> bool:
    """Whether anything is under way that may make room or serve."""
    acting = any(isinstance(action, Create | Delete | Drain | Mark) for action in course.actions)
    return acting or any(
        pod.deleting or pod.draining_since_s is not None or (pod.name in assignment.sizes and not pod.ready)
        for pod in pods
    )
