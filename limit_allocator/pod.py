"""Reads what the allocator needs to know of a pod: its limits, the author's, and if it is left alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from limit_allocator.allocation.model import PERIOD_US
from limit_allocator.distributed_container import MOST_BYTES, MOST_CPU_US
from surgekit.kube.checked import checked
from surgekit.kube.quantity import QuantityError, parse

__all__ = [
    "ORIGINAL",
    "Container",
    "LeaveAlone",
    "Limits",
    "Pod",
    "is_system",
    "read_pod",
]

Json = dict[str, Any]
# Admission writes it (manifests/limit-allocator/admission.yaml) and nobody changes it: the limits that the
# pod's author gave its containers, before they became ceilings.
ORIGINAL = "limits.surgekit.dev/original"
_SYSTEM_NAMESPACES = frozenset({"surgekit-system", "surgekit-agents"})
_LONGEST_ORIGINAL = 8192  # 32 containers with names of 63 characters and both quantities: about 5,000
_MOST_CONTAINERS = 32


class LeaveAlone(StrEnum):
    """Why a pod keeps the limits it has. The CRD explains them to users."""

    SYSTEM_NAMESPACE = "SystemNamespace"
    NO_LIMITS = "NoLimits"  # a limit cannot be taken away again by a resize, so none is added
    POD_LEVEL_LIMITS = "PodLevelLimits"
    RESTARTS_ON_RESIZE = "RestartsOnResize"
    EXCLUSIVE_CPUS = "ExclusiveCpus"
    TOO_MANY_CONTAINERS = "TooManyContainers"


@dataclass(frozen=True, slots=True)
class Limits:
    """As written, and as the allocator counts."""

    cpu: str
    memory: str
    cpu_us: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Container:
    name: str
    id: str  # the runtime's, without its scheme; empty until the kubelet reports it
    limits: Limits | None  # of the spec: the ceiling; None: not both are set
    original: Limits | None = None  # the author's, where admission raised them

    @property
    def author(self) -> Limits | None:
        return self.original or self.limits


@dataclass(frozen=True, slots=True)
class Pod:
    namespace: str
    name: str
    uid: str
    node: str  # empty: not bound yet
    labels: Mapping[str, str] = field(default_factory=dict)
    containers: tuple[Container, ...] = ()  # and sidecars
    finished: bool = False
    leaving: bool = False  # is being deleted
    guaranteed: bool = False
    whole_cpus: bool = False  # a container asks for whole CPUs
    fault: LeaveAlone | None = None  # in the pod itself

    @property
    def marked(self) -> bool:
        """Whether admission raised its limits."""
        return any(container.original for container in self.containers)

    def leave_alone(self, exclusive_cpus: bool) -> LeaveAlone | None:
        """Why its limits are not ours to move; None: they are."""
        if self.fault is None and exclusive_cpus and self.guaranteed and self.whole_cpus:
            return LeaveAlone.EXCLUSIVE_CPUS
        return self.fault


def is_system(namespace: str) -> bool:
    return namespace.startswith("kube-") or namespace in _SYSTEM_NAMESPACES


@checked
def read_pod(obj: Json) -> Pod:
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    original = _original((metadata.get("annotations") or {}).get(ORIGINAL))
    ids = dict(_ids(status))
    initial = spec.get("initContainers") or []
    every = [*spec["containers"], *initial]
    long_lived = [*spec["containers"], *(c for c in initial if c.get("restartPolicy") == "Always")]
    containers = tuple(
        Container(c["name"], ids.get(c["name"], ""), _limits(c), original.get(c["name"])) for c in long_lived
    )
    return Pod(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        spec.get("nodeName") or "",
        metadata.get("labels") or {},
        containers,
        finished=status.get("phase") in ("Succeeded", "Failed"),
        leaving=bool(metadata.get("deletionTimestamp")),
        guaranteed=all(_is_guaranteed(c) for c in every),
        whole_cpus=any(_asks_whole_cpus(c) for c in every),
        fault=_fault(metadata["namespace"], spec, every),
    )


def _fault(namespace: str, spec: Json, every: list[Json]) -> LeaveAlone | None:
    if is_system(namespace):
        return LeaveAlone.SYSTEM_NAMESPACE
    if (spec.get("resources") or {}).get("limits"):
        return LeaveAlone.POD_LEVEL_LIMITS
    if len(every) > _MOST_CONTAINERS:
        return LeaveAlone.TOO_MANY_CONTAINERS
    if not all(_limits(container) for container in every):
        return LeaveAlone.NO_LIMITS
    policies = (policy for container in every for policy in container.get("resizePolicy") or ())
    if any(policy.get("restartPolicy") == "RestartContainer" for policy in policies):
        return LeaveAlone.RESTARTS_ON_RESIZE
    return None


def _limits(container: Json) -> Limits | None:
    limits = (container.get("resources") or {}).get("limits") or {}
    return _both(limits.get("cpu"), limits.get("memory"))


def _both(cpu: object, memory: object) -> Limits | None:
    """None if one is missing or no limit at all (0)."""
    if cpu is None or memory is None:
        return None
    cpu_us, memory_bytes = int(parse(cpu) * PERIOD_US + 1e-6), int(parse(memory))
    if not (0 < cpu_us <= MOST_CPU_US and 0 < memory_bytes <= MOST_BYTES):
        return None
    return Limits(str(cpu), str(memory), cpu_us, memory_bytes)


def _original(text: object) -> dict[str, Limits]:
    """The annotation. One that admission did not write counts as none."""
    if not isinstance(text, str) or len(text) > _LONGEST_ORIGINAL:
        return {}
    try:
        said = json.loads(text)
        both = {str(name): _both(of["cpu"], of["memory"]) for name, of in said.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, QuantityError):
        return {}
    return {name: limits for name, limits in both.items() if limits}


def _ids(status: Json) -> Iterator[tuple[str, str]]:
    for kind in ("containerStatuses", "initContainerStatuses"):
        for one in status.get(kind) or ():
            yield one["name"], (one.get("containerID") or "").rpartition("/")[2]


def _is_guaranteed(container: Json) -> bool:
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return all(
        name in limits and parse(requests.get(name, limits[name])) == parse(limits[name])
        for name in ("cpu", "memory")
    )


def _asks_whole_cpus(container: Json) -> bool:
    resources = container.get("resources") or {}
    requests = resources.get("requests") or resources.get("limits") or {}
    cores = parse(requests.get("cpu", 0))
    return cores >= 1 and cores.is_integer()
