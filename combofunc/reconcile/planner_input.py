"""Turns a function's pods and template into input for the planner. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from combofunc.labels import (
    CONCURRENCY_ANNOTATION,
    FUNCTION_LABEL,
    PLANNED_NODE_ANNOTATION,
    SIZE_LABEL,
    SIZE_OFFER_ANNOTATION,
)
from combofunc.planner.model import Container, PlanRequest, Size
from combofunc.pods.assignment import NewPod
from combofunc.pods.body import Owner, pod_body
from combofunc.pods.pod import FunctionPod, Resizing
from combofunc.pods.resources import of_size, requested
from combofunc.reconcile.spec import ComboFunc
from surgekit.kube.pods import requests

__all__ = ["PlannerInput", "PodShape", "new_pod_body", "planner_containers", "pod_shape"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlannerInput:
    """Everything a plan is made from. Only values: a planning thread uses it while the cluster changes."""

    function: ComboFunc
    request: PlanRequest
    pod_names: Sequence[str]  # all pods there are, so that new pods get other names
    outdated_pods: frozenset[str]  # names of pods with an earlier template
    least_memory: Mapping[str, float]  # pod's uid -> bytes; it is not shrunk below
    now_s: float
    keep_idle: bool = False  # containers that are not needed shrink and stay


@dataclass(frozen=True, slots=True)
class PodShape:
    """How much a whole pod requests: the sized container and the containers beside it."""

    beside_cpu_millicores: int
    beside_memory_bytes: int
    sizes: tuple[Size, ...]  # the function's sizes, as whole pods

    def whole(self, size: Size) -> tuple[int, int]:
        """(millicores, bytes) that a pod requests if its sized container has this size."""
        return (
            size.cpu_millicores + self.beside_cpu_millicores,
            size.memory_bytes + self.beside_memory_bytes,
        )

    def whole_size(self, name: str, cpu_millicores: int, memory_bytes: int, concurrency: int) -> Size:
        """The whole pod's size if its sized container has these resources."""
        size = Size(name, cpu_millicores, memory_bytes, concurrency)
        return Size(name, *self.whole(size), concurrency)


def pod_shape(function: ComboFunc) -> PodShape:
    """Raises PodError if a quantity of the template cannot be read."""
    first = function.sizes[0]
    cpu, memory = requests(new_pod_body(function, NewPod("", "", first)))
    beside = PodShape(round(cpu) - first.cpu_millicores, round(memory) - first.memory_bytes, ())
    sizes = tuple(
        beside.whole_size(s.name, s.cpu_millicores, s.memory_bytes, s.concurrency) for s in function.sizes
    )
    return PodShape(beside.beside_cpu_millicores, beside.beside_memory_bytes, sizes)


def new_pod_body(function: ComboFunc, new: NewPod, offer: str = "") -> Json:
    """The pod to create. Its gate comes off once it is nominated for its node. Without a node it has no gate:
    it waits for one that does not exist yet. `offer`: the sizes that would do as well."""
    annotations = {CONCURRENCY_ANNOTATION: str(new.size.concurrency)}
    annotations |= {PLANNED_NODE_ANNOTATION: new.node} if new.node else {}
    annotations |= {SIZE_OFFER_ANNOTATION: offer} if offer else {}
    owner = Owner("surgekit.dev/v1alpha1", "ComboFunc", function.name, function.uid, FUNCTION_LABEL)
    return pod_body(
        function.template,
        function.template_hash,
        owner,
        new.name,
        labels={SIZE_LABEL: new.size.name},
        annotations=annotations,
        resources=of_size(new.size, function.container),
        gated=bool(new.node),
    )


def planner_containers(
    function: ComboFunc,
    shape: PodShape,
    pods: Sequence[FunctionPod],
    not_resizable: Collection[str],
    least_memory: Mapping[str, float],
) -> list[Container]:
    """Live pods of the current template, with the size they have or are being resized to.

    `not_resizable`: uids of pods whose resize was refused. `least_memory`: pod's uid -> bytes; the pod is not
    shrunk below.
    """
    found = []
    for pod in pods:
        if not pod.live or pod.template != function.template_hash:
            continue
        refused = pod.uid in not_resizable
        # The kubelet carries out no part of such a resize, so another may be requested.
        in_vain = pod.resizing is Resizing.MEMORY_IN_USE
        has = pod.has if (refused or in_vain) and pod.has is not None else pod.asked
        cpu_millicores, memory_bytes = requested(has, function.container)
        size = _size(function, shape, pod, cpu_millicores, memory_bytes)
        resizable = pod.has is not None and (pod.resizing is Resizing.NONE or in_vain) and not refused
        held_bytes = memory_bytes + shape.beside_memory_bytes
        least_bytes = least_memory.get(pod.uid, 0.0) + shape.beside_memory_bytes
        if held_bytes > size.memory_bytes:  # it gave up cpu and kept its memory
            least_bytes = held_bytes
        least_bytes = math.ceil(min(least_bytes, held_bytes))
        found.append(Container(pod.name, pod.node or pod.planned_node, size, resizable, least_bytes))
    return found


def _size(
    function: ComboFunc, shape: PodShape, pod: FunctionPod, cpu_millicores: int, memory_bytes: int
) -> Size:
    same = [
        size
        for size in function.sizes
        if (size.cpu_millicores, size.memory_bytes) == (cpu_millicores, memory_bytes)
    ]
    # Sizes may share resources: prefer the one on the pod's label, then the highest concurrency.
    same.sort(key=lambda size: (size.name != pod.size, -size.concurrency))
    if same:
        return shape.whole_size(same[0].name, cpu_millicores, memory_bytes, same[0].concurrency)
    for size in function.sizes:
        less = size.cpu_millicores == cpu_millicores and size.memory_bytes < memory_bytes
        if less and size.name == pod.size:
            return shape.whole_size(size.name, size.cpu_millicores, size.memory_bytes, size.concurrency)
    return shape.whole_size(pod.size, cpu_millicores, memory_bytes, max(pod.concurrency, 1))
