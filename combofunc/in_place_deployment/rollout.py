"""The next actions on the pods of an InPlaceDeployment (fig. 11). Pure; time is an argument.

Pods that differ from the template only in cpu and memory are resized, all at once, because they keep serving.
A pod that uses more memory than the template gives keeps it, and only its cpu changes. All other pods are
replaced within maxSurge and maxUnavailable. So are pods whose node can never hold the new size, and, one at a
time, pods that waited too long for room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from combofunc.in_place_deployment.spec import InPlaceDeployment
from combofunc.in_place_deployment.status import Counts
from combofunc.pods.actions import Action, Create, Delete, Resize, Undrain
from combofunc.pods.assignment import new_name
from combofunc.pods.memory_in_use import attainable, keeps_memory
from combofunc.pods.pod import FunctionPod, Resizing
from combofunc.pods.pod_transitions import drain_left_s, remove_step
from combofunc.pods.resources import Resources, amounts_of, includes
from combofunc.pods.steps import Steps
from surgekit.decision import Decision

__all__ = ["Observation", "counts", "decide", "keeping_memory", "overdue"]

Json = dict[str, Any]
_WAITING = (Resizing.DEFERRED, Resizing.FAILING)


@dataclass(frozen=True, slots=True)
class Observation:
    """One InPlaceDeployment as seen now."""

    deployment: InPlaceDeployment
    pods: Sequence[FunctionPod]  # every readable pod that it owns
    now_s: float  # Unix time
    refused: frozenset[str] = frozenset()  # uids of pods whose resize the API server refused
    overdue: str = ""  # uid of the pod that is replaced because its resize waited too long
    least_memory: Mapping[str, float] = field(default_factory=dict)  # pod's uid -> bytes; not shrunk below
    unreadable_pods: Sequence[str] = ()  # names
    inputs_age_s: Mapping[str, float] = field(default_factory=dict)  # by watched kind


def decide(seen: Observation, new_body: Callable[[str], Json]) -> Decision[Steps]:
    """The next steps. Not valid if a pod cannot be read. `new_body`: the pod to create, given its name."""
    if unreadable := seen.unreadable_pods:
        # A rollout without the unreadable pods would replace pods that exist.
        reason = f"{len(unreadable)} of its pods cannot be read, {unreadable[0]} for one"
        return Decision(Steps(()), (reason,), seen.inputs_age_s, valid=False)
    steps = _next_steps(seen, new_body)
    return Decision(steps, (steps.waiting or "all pods are as the template says",), seen.inputs_age_s)


def _next_steps(seen: Observation, new_body: Callable[[str], Json]) -> Steps:
    def wanted(pod: FunctionPod) -> Resources:
        return attainable(pod, of_template, seen.least_memory.get(pod.uid, 0.0))

    deployment, pods, now_s = seen.deployment, seen.pods, seen.now_s
    replaced = seen.refused | {seen.overdue}
    of_template = wanted_resources(deployment)
    actions: list[Action] = [
        Delete(pod.name, pod.uid, "it has ended") for pod in pods if pod.finished and not pod.deleting
    ]
    live = [pod for pod in pods if pod.live]
    good = [pod for pod in live if pod.uid not in replaced and _is_good(deployment, pod, wanted(pod))]
    actions += [
        Resize(pod.name, pod.uid, wanted(pod))
        for pod in good
        if pod.has is not None and not includes(pod.asked, wanted(pod))
    ]
    staying, surplus = _staying(good, deployment.replicas)
    actions += [Undrain(pod.name, pod.uid) for pod in staying if pod.draining_since_s is not None]
    old = [pod for pod in live if pod not in good]
    actions += _creations(deployment, pods, staying, old, new_body)
    going = [*surplus, *_to_replace(deployment, live, staying, surplus, old)]
    actions += [
        a for p in going if (a := remove_step(p, deployment.drain_s, now_s, "it is no longer needed"))
    ]
    waits_s = [drain_left_s(pod, deployment.drain_s, now_s) for pod in going]
    waits_s += [1.0 for pod in live if pod.resizing in _WAITING]  # it may become overdue
    waiting = {
        "to be created": deployment.replicas - len(staying),
        "to find a node": sum(pod.unschedulable_since_s is not None for pod in staying),
        "to become Ready": sum(not p.ready and p.unschedulable_since_s is None for p in staying),
        "to be resized": sum(pod.has is not None and not pod.is_as(wanted(pod)) for pod in staying),
        "to be replaced": sum(pod.draining_since_s is None for pod in old),
        "to go": len(surplus) + sum(pod.draining_since_s is not None for pod in old),
    }
    words = ", ".join(f"{count} {what}" for what, count in waiting.items() if count)
    return Steps(tuple(actions), words, min(waits_s, default=math.inf))


def overdue(
    deployment: InPlaceDeployment, pods: Sequence[FunctionPod], last: str, deferred_before_s: float
) -> str:
    """The uid of the pod to replace because its resize waits since before `deferred_before_s`; empty: none.

    One at a time: the room it frees may be what others wait for. So the next is chosen only when all pods
    serve and the newest was created before `deferred_before_s`. `last`: the uid returned before, so that the
    choice stays the same.
    """
    wanted = wanted_resources(deployment)
    waiting = [
        pod
        for pod in pods
        if pod.live and pod.resizing in _WAITING and includes(pod.asked, wanted)
        if pod.resizing_since_s < deferred_before_s
    ]
    if not waiting:
        return ""
    first = min(
        waiting, key=lambda p: (p.uid != last, p.draining_since_s is None, p.resizing_since_s, p.name)
    )
    begun = first.uid == last or first.draining_since_s is not None
    if not begun and any(not pod.serves or pod.created_s >= deferred_before_s for pod in pods):
        return ""
    return first.uid


def counts(seen: Observation) -> Counts:
    deployment, pods = seen.deployment, seen.pods
    wanted = wanted_resources(deployment)
    there = [pod for pod in pods if pod.live and pod.draining_since_s is None]
    over = (Resizing.NONE, Resizing.MEMORY_IN_USE)
    resizing = [pod.resizing for pod in pods if pod.live and pod.resizing not in over]
    return Counts(
        replicas=len(there),
        ready=sum(pod.ready for pod in there),
        updated=sum(pod.template == deployment.template_hash and pod.is_as(wanted) for pod in there),
        resizing=len(resizing),
        deferred=resizing.count(Resizing.DEFERRED) + resizing.count(Resizing.FAILING),
        infeasible=resizing.count(Resizing.INFEASIBLE),
        overdue=sum(pod.uid == seen.overdue for pod in pods if pod.live),
        keeping=len(keeping_memory(replace(seen, pods=there))),
    )


def keeping_memory(seen: Observation) -> list[str]:
    """Names of pods that use, and so keep, more memory than the template gives."""
    wanted = wanted_resources(seen.deployment)
    return [
        pod.name
        for pod in seen.pods
        if pod.template == seen.deployment.template_hash
        if keeps_memory(pod, wanted, seen.least_memory.get(pod.uid, 0.0))
    ]


def wanted_resources(deployment: InPlaceDeployment) -> Resources:
    return {name: of for name, of in amounts_of(deployment.template["spec"]["containers"]).items() if of}


def _is_good(deployment: InPlaceDeployment, pod: FunctionPod, wanted: Resources) -> bool:
    """Whether the pod matches the template, or can be resized to it in place."""
    if pod.template != deployment.template_hash:
        return False
    asked = includes(pod.asked, wanted)
    if pod.resizing is Resizing.INFEASIBLE and asked:
        return False
    # A pod without a node cannot be resized; it is replaced.
    return asked or bool(pod.node)


def _staying(good: Sequence[FunctionPod], replicas: int) -> tuple[list[FunctionPod], list[FunctionPod]]:
    """The best `replicas` pods, and the surplus."""
    ordered = sorted(
        good,
        key=lambda p: (p.draining_since_s is not None, not p.ready, not p.node, p.created_s, p.name),
    )
    return ordered[:replicas], ordered[replicas:]


def _creations(
    deployment: InPlaceDeployment,
    pods: Sequence[FunctionPod],
    staying: Sequence[FunctionPod],
    old: Sequence[FunctionPod],
    new_body: Callable[[str], Json],
) -> list[Action]:
    missing = deployment.replicas - len(staying)
    kept = sum(pod.draining_since_s is None for pod in old)
    room = deployment.replicas + deployment.max_surge - len(staying) - kept
    there = ",".join(sorted(pod.name for pod in pods))
    names = (
        new_name(deployment.name, deployment.uid, deployment.template_hash, there, str(i))
        for i in range(max(min(missing, room), 0))
    )
    return [Create(name, new_body(name)) for name in names]


def _to_replace(
    deployment: InPlaceDeployment,
    live: Sequence[FunctionPod],
    staying: Sequence[FunctionPod],
    surplus: Sequence[FunctionPod],
    old: Sequence[FunctionPod],
) -> list[FunctionPod]:
    """Old pods to remove now: all that do not serve, and as many others as maxUnavailable allows."""
    going = [pod for pod in old if not pod.serves]
    serving = sum(pod.serves for pod in live) - sum(pod.serves for pod in surplus)
    spare = serving - (deployment.replicas - deployment.max_unavailable)
    rest = sorted((pod for pod in old if pod.serves), key=lambda p: (p.created_s, p.name))
    if len(staying) >= deployment.replicas and all(pod.serves for pod in staying):
        return going + rest
    return going + rest[: max(spare, 0)]
