"""A function's pods and template in the planner's words. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from combofunc.labels import CONCURRENCY_ANNOTATION, FUNCTION_LABEL, PLANNED_NODE_ANNOTATION, SIZE_LABEL
from combofunc.planner.model import Container, Size
from combofunc.pods.assignment import NewPod
from combofunc.pods.body import Owner, pod_body
from combofunc.pods.pod import FunctionPod, Resizing
from combofunc.pods.resources import of_size, requested
from combofunc.reconcile.spec import ComboFunc
from surgekit.kube.pods import requests

__all__ = ["Shape", "body_of", "containers_of", "shape_of"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a function's pods: what stands beside the sized container, and the sizes of whole pods."""

    beside_cpu_millicores: int
    beside_memory_bytes: int
    sizes: tuple[Size, ...]

    def whole(self, size: Size) -> tuple[int, int]:
        """(millicores, bytes) that a pod with a container of that size asks for."""
        return (
            size.cpu_millicores + self.beside_cpu_millicores,
            size.memory_bytes + self.beside_memory_bytes,
        )

    def of(self, name: str, cpu_millicores: int, memory_bytes: int, concurrency: int) -> Size:
        """The whole pod's, of a sized container with these."""
        size = Size(name, cpu_millicores, memory_bytes, concurrency)
        return Size(name, *self.whole(size), concurrency)


def shape_of(function: ComboFunc) -> Shape:
    """PodError: a quantity of the template cannot be read."""
    first = function.sizes[0]
    cpu, memory = requests(body_of(function, NewPod("", "", first)))
    beside = Shape(round(cpu) - first.cpu_millicores, round(memory) - first.memory_bytes, ())
    sizes = tuple(beside.of(s.name, s.cpu_millicores, s.memory_bytes, s.concurrency) for s in function.sizes)
    return Shape(beside.beside_cpu_millicores, beside.beside_memory_bytes, sizes)


def body_of(function: ComboFunc, new: NewPod) -> Json:
    """What is created for it: behind the gate, to be nominated for its node."""
    owner = Owner("surgekit.dev/v1alpha1", "ComboFunc", function.name, function.uid, FUNCTION_LABEL)
    return pod_body(
        function.template,
        function.template_hash,
        owner,
        new.name,
        {SIZE_LABEL: new.size.name},
        {CONCURRENCY_ANNOTATION: str(new.size.concurrency), PLANNED_NODE_ANNOTATION: new.node},
        of_size(new.size, function.container),
        gated=True,
    )


def containers_of(
    function: ComboFunc,
    shape: Shape,
    pods: Sequence[FunctionPod],
    refused: Collection[str],
    least_memory: Mapping[str, float],
) -> list[Container]:
    """Pods of the current template that are there to stay, as large as they are or are becoming.

    By uid: those in `refused` cannot be what they were asked to be; `least_memory` is what they are not asked
    to go below.
    """
    found = []
    for pod in pods:
        if not pod.live or pod.template != function.template_hash:
            continue
        stuck = pod.uid in refused
        # Nothing of such a resize is carried out: another may be asked for.
        in_vain = pod.resizing is Resizing.MEMORY_IN_USE
        has = pod.has if (stuck or in_vain) and pod.has is not None else pod.asked
        cpu_millicores, memory_bytes = requested(has, function.container)
        size = _size(function, shape, pod, cpu_millicores, memory_bytes)
        free = pod.has is not None and (pod.resizing is Resizing.NONE or in_vain) and not stuck
        held_bytes = memory_bytes + shape.beside_memory_bytes
        least_bytes = least_memory.get(pod.uid, 0.0) + shape.beside_memory_bytes
        if held_bytes > size.memory_bytes:  # made smaller in cpu alone
            least_bytes = held_bytes
        least_bytes = math.ceil(min(least_bytes, held_bytes))
        found.append(Container(pod.name, pod.node or pod.planned_node, size, free, least_bytes))
    return found


def _size(
    function: ComboFunc, shape: Shape, pod: FunctionPod, cpu_millicores: int, memory_bytes: int
) -> Size:
    same = [
        size
        for size in function.sizes
        if (size.cpu_millicores, size.memory_bytes) == (cpu_millicores, memory_bytes)
    ]
    # Several can have the same resources: the one it is marked with, else the most it may be sent.
    same.sort(key=lambda size: (size.name != pod.size, -size.concurrency))
    if same:
        found = same[0]
        return shape.of(found.name, cpu_millicores, memory_bytes, found.concurrency)
    for size in function.sizes:
        less = size.cpu_millicores == cpu_millicores and size.memory_bytes < memory_bytes
        if less and size.name == pod.size:
            return shape.of(size.name, size.cpu_millicores, size.memory_bytes, size.concurrency)
    return shape.of(pod.size, cpu_millicores, memory_bytes, max(pod.concurrency, 1))
