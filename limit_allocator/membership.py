"""Which pods belong to which DistributedContainer. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from limit_allocator.distributed_container import DistributedContainer
from limit_allocator.pod import LeaveAlone, Pod
from surgekit.process.modes import Mode

__all__ = ["Membership", "Selection", "effective_mode", "members", "oldest"]

Json = dict[str, Any]

_ORDER = (Mode.OFF, Mode.SHADOW, Mode.ENFORCE)


@dataclass(frozen=True, slots=True)
class Selection:
    """A DistributedContainer with the pods that it selects."""

    spec: DistributedContainer
    mode: Mode
    pods: tuple[Pod, ...] = ()  # with a node
    left_alone: tuple[tuple[Pod, LeaveAlone], ...] = ()
    of_others: tuple[tuple[Pod, str], ...] = ()  # with the older DistributedContainer that they belong to

    @property
    def enforces(self) -> bool:
        return self.mode is Mode.ENFORCE


@dataclass(frozen=True, slots=True)
class Membership:
    applications: Mapping[str, Selection] = field(default_factory=dict)  # by namespace/name
    owner: Mapping[str, str] = field(default_factory=dict)  # pod uid -> namespace/name; none if left alone


def effective_mode(asked: Mode, most: Mode) -> Mode:
    return min(asked, most, key=_ORDER.index)


def oldest(objects: Iterable[Json], most: int) -> tuple[list[Json], list[Json]]:
    """Those objects that count, and the others: of each namespace the `most` oldest, by name of equal age.

    So what a tenant can make the controller do has an end. Older ones cannot be pushed out by younger ones.
    """
    count: Counter[str] = Counter()
    counting: list[Json] = []
    others: list[Json] = []
    for obj in sorted(objects, key=_seniority):
        namespace = obj["metadata"]["namespace"]
        count[namespace] += 1
        (counting if count[namespace] <= most else others).append(obj)
    return counting, others


def _seniority(obj: Json) -> tuple[str, str]:
    """As `DistributedContainer.seniority`, of an object whose spec nobody has read."""
    metadata = obj["metadata"]
    return str(metadata.get("creationTimestamp", "")), str(metadata["name"])


def members(
    specs: Iterable[DistributedContainer], pods: Iterable[Pod], most: Mode, exclusive_cpus: bool
) -> Membership:
    """Assign each unfinished pod to the oldest DistributedContainer of its namespace that selects it.

    One in mode off selects nothing, so that a younger one can take over. `most` is the controller's mode. A
    pod that has no node yet has an owner, and is not among the application's pods.
    """
    in_namespace: dict[str, list[Pod]] = {}
    for pod in pods:
        if not pod.finished:
            in_namespace.setdefault(pod.namespace, []).append(pod)
    claimed: dict[str, str] = {}
    owner: dict[str, str] = {}
    applications = {}
    for spec in sorted(specs, key=lambda s: s.seniority):
        mode = effective_mode(spec.mode, most)
        found = [] if mode is Mode.OFF else _selected(spec, in_namespace.get(spec.namespace, ()))
        free = [pod for pod in found if pod.uid not in claimed]
        of_others = tuple((pod, claimed[pod.uid]) for pod in found if pod.uid in claimed)
        faults = [(pod, pod.leave_alone(exclusive_cpus)) for pod in free]
        claimed |= {pod.uid: spec.key for pod in free}
        owner |= {pod.uid: spec.key for pod, fault in faults if fault is None}
        applications[spec.key] = Selection(
            spec,
            mode,
            tuple(pod for pod, fault in faults if fault is None and pod.node),
            tuple((pod, fault) for pod, fault in faults if fault is not None),
            of_others,
        )
    return Membership(applications, owner)


def _selected(spec: DistributedContainer, pods: Sequence[Pod]) -> list[Pod]:
    return sorted((p for p in pods if spec.selector.matches(p.labels)), key=lambda p: p.name)
