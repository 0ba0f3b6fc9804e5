"""A plan with pod names: the size of each pod that stays, the pods that leave, the new pods. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from combofunc.planner.model import Container, Plan, Size
from combofunc.pods.memory_in_use import attainable
from combofunc.pods.pod import FunctionPod, Resizing
from combofunc.pods.resources import includes, of_size

__all__ = ["Assignment", "BadPlan", "NewPod", "assign", "broken", "new_name", "with_created"]

# Pod names become host names, which have at most 63 characters.
_LONGEST_PREFIX = 52


class BadPlan(ValueError):
    """The plan does not fit the request; it is not carried out."""


@dataclass(frozen=True, slots=True)
class NewPod:
    name: str
    node: str
    size: Size


@dataclass(frozen=True, slots=True)
class Assignment:
    sizes: Mapping[str, Size]  # wanted size of each pod that stays, by name
    leaving: frozenset[str]
    new: tuple[NewPod, ...]
    target: int
    goal: int  # the part of the target that the plan reaches

    @property
    def short(self) -> bool:
        return self.goal < self.target


def assign(
    plan: Plan, containers: Sequence[Container], sizes: Sequence[Size], function: str, salt: str
) -> Assignment:
    """`sizes`: of the sized container. The plan has sizes of whole pods, by the same names.

    `salt`: differs with everything the plan was made from. The same plan for the same pods gives the same
    names, so a creation whose answer was lost is not repeated under another name.
    """
    offered = {size.name: size for size in sizes}
    staying = {c.pod: c.size.name for c in plan.kept} | {r.container.pod: r.to.name for r in plan.resized}
    leaving = [c.pod for c in plan.removed]
    answered = [*(c.pod for c in plan.kept), *(r.container.pod for r in plan.resized), *leaving]
    if sorted(answered) != sorted(c.pod for c in containers):
        raise BadPlan("the plan must keep, resize or remove every container exactly once")
    named = {*staying.values(), *(c.size.name for c in plan.created)}
    if unknown := sorted(named - offered.keys()):
        raise BadPlan(f"the plan uses sizes that are not offered: {', '.join(unknown)}")
    there = ",".join(sorted(c.pod for c in containers))
    new = tuple(
        NewPod(new_name(function, salt, there, c.node, c.size.name, str(i)), c.node, offered[c.size.name])
        for i, c in enumerate(plan.created)
    )
    return Assignment(
        {pod: offered[name] for pod, name in staying.items()},
        frozenset(leaving),
        new,
        plan.target,
        min(plan.target, plan.concurrency),
    )


def with_created(assignment: Assignment, pods: Iterable[FunctionPod]) -> Assignment:
    """Move new pods that now exist to the pods that stay. If such a pod is lost, it is not created again."""
    there = {pod.name for pod in pods}
    come = {new.name: new.size for new in assignment.new if new.name in there}
    if not come:
        return assignment
    new = tuple(new for new in assignment.new if new.name not in there)
    return replace(assignment, sizes={**assignment.sizes, **come}, new=new)


def new_name(prefix: str, *parts: str) -> str:
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:10]
    return f"{prefix[:_LONGEST_PREFIX].rstrip('-.')}-{digest}"


def broken(
    assignment: Assignment,
    pods: Iterable[FunctionPod],
    container: str,
    least_memory: Mapping[str, float],
    deferred_before_s: float,
) -> str:
    """Why the assignment cannot be carried out; empty if it can. `pods`: those of the current template.

    `deferred_before_s`: a resize that waits since before then has waited too long.
    """
    there = {pod.name: pod for pod in pods if pod.live}
    for name in assignment.sizes:
        if name not in there:
            return f"pod {name} is gone"
    for name, pod in there.items():
        size = assignment.sizes.get(name)
        if size is None:
            if name not in assignment.leaving:
                return f"pod {name} is not in the plan"
            continue
        wanted = attainable(pod, of_size(size, container), least_memory.get(pod.uid, 0.0))
        if pod.resizing is Resizing.INFEASIBLE and includes(pod.asked, wanted):
            return f"pod {name} can never have size {size.name} on {pod.node}"
        if pod.resizing is Resizing.DEFERRED and pod.resizing_since_s < deferred_before_s:
            return f"pod {name} waited too long for room on {pod.node} to get size {size.name}"
        if pod.resizing is Resizing.FAILING and pod.resizing_since_s < deferred_before_s:
            return f"pod {name} could not get size {size.name} on {pod.node}"
    return ""
