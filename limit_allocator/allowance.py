"""What a namespace allows a DistributedContainer: its limit in force, and how high ceilings may be.

A tenant writes the global limit, so it must not reach past what the tenant may have anyway: the namespace's
ResourceQuota, or without one the limits that its pods' authors wrote.

A ceiling is a container's limit in its pod's spec, and both ResourceQuota and LimitRange count those:

- A quota of limits.cpu counts the ceilings of all pods. The second pod with the application's whole limit
  would be refused, so with such a quota pods keep their authors' limits.
- A LimitRange's `max` for containers lowers the ceiling. One for pods, or a `maxLimitRequestRatio`, depends
  on the pod: its author's limits are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from limit_allocator.allocation.model import PERIOD_US
from limit_allocator.distributed_container import DistributedContainer
from limit_allocator.pod import Limits, Pod
from surgekit.kube.checked import checked
from surgekit.kube.quantity import parse

__all__ = ["Allowance", "LimitRange", "Quota", "allow", "read_limit_range", "read_quota"]

Json = dict[str, Any]
Resource = Literal["cpu", "memory"]
_UNIT = {"cpu": PERIOD_US, "memory": 1}


@dataclass(frozen=True, slots=True)
class Quota:
    """What a ResourceQuota allows of limits; None: it does not count them."""

    namespace: str
    name: str
    cpu_us: int | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class LimitRange:
    """What a LimitRange says about limits of containers and pods."""

    namespace: str
    name: str
    most_cpu: str | None = None  # max of type Container, as written
    most_memory: str | None = None
    by_pod: tuple[str, ...] = ()  # resources whose largest limit depends on the pod


@dataclass(frozen=True, slots=True)
class Allowance:
    cpu_us: int  # the global limits in force
    memory_bytes: int
    limited_by: tuple[str, ...] = ()  # why they are under what the spec says, in sentences
    ceiling_cpu: str | None = None  # None: pods keep their authors' limits
    ceiling_memory: str | None = None
    kept_because: tuple[str, ...] = ()  # sentences


@checked
def read_quota(obj: Json) -> Quota:
    hard = (obj.get("spec") or {}).get("hard") or {}
    cpu, memory = (_hard(hard, f"limits.{name}", unit) for name, unit in _UNIT.items())
    return Quota(obj["metadata"]["namespace"], obj["metadata"]["name"], cpu, memory)


@checked
def read_limit_range(obj: Json) -> LimitRange:
    most: dict[str, str] = {}
    by_pod = set()
    for item in (obj.get("spec") or {}).get("limits") or ():
        largest = item.get("max") or {}
        if item.get("type") == "Pod":
            by_pod |= set(_UNIT) & set(largest)
        if item.get("type") == "Container":
            for name in set(_UNIT) & set(largest):
                most[name] = min(str(largest[name]), most.get(name, str(largest[name])), key=parse)
        if item.get("type") in ("Pod", "Container"):
            by_pod |= set(_UNIT) & set(item.get("maxLimitRequestRatio") or {})
    metadata = obj["metadata"]
    return LimitRange(
        metadata["namespace"], metadata["name"], most.get("cpu"), most.get("memory"), tuple(sorted(by_pod))
    )


def _hard(hard: Json, key: str, unit: int) -> int | None:
    return int(parse(hard[key]) * unit) if key in hard else None


def allow(
    spec: DistributedContainer,
    pods: Sequence[Pod],
    quotas: Iterable[Quota],
    limit_ranges: Iterable[LimitRange],
) -> Allowance:
    """`pods` are the DistributedContainer's own; quotas and limit ranges those of its namespace."""
    of_namespace, ranges = list(quotas), list(limit_ranges)
    cpu_us, cpu_reason = _in_force(
        "cpu", spec.cpu_us, pods, lambda limits: limits.cpu_us, [(q.name, q.cpu_us) for q in of_namespace]
    )
    memory_bytes, memory_reason = _in_force(
        "memory",
        spec.memory_bytes,
        pods,
        lambda limits: limits.memory_bytes,
        [(q.name, q.memory_bytes) for q in of_namespace],
    )
    counting_cpu = [q.name for q in of_namespace if q.cpu_us is not None]
    counting_memory = [q.name for q in of_namespace if q.memory_bytes is not None]
    cpu, cpu_kept = _ceiling("cpu", f"{spec.cpu_us * 1000 // PERIOD_US}m", counting_cpu, ranges)
    memory, memory_kept = _ceiling("memory", _memory(spec.memory_bytes), counting_memory, ranges)
    return Allowance(
        cpu_us, memory_bytes, tuple(filter(None, (cpu_reason, memory_reason))), cpu, memory,
        tuple(filter(None, (cpu_kept, memory_kept))),
    )  # fmt: skip


def _in_force(
    resource: Resource,
    asked: int,
    pods: Sequence[Pod],
    amount: Callable[[Limits], int],
    quotas: Sequence[tuple[str, int | None]],
) -> tuple[int, str]:
    """The global limit in force, and why it is under the one asked for (empty: it is not)."""
    counting = [(most, name) for name, most in quotas if most is not None]
    if counting:
        most, name = min(counting)
        why = f"ResourceQuota {name} allows {_shown(resource, most)} of limits.{resource}"
    else:
        most = sum(amount(c.author) for pod in pods for c in pod.containers if c.author)
        why = f"the limits that the authors of its pods wrote add up to {_shown(resource, most)} {resource}"
    return (asked, "") if asked <= most else (most, why)


def _ceiling(
    resource: Resource, asked: str, quotas: Sequence[str], ranges: Sequence[LimitRange]
) -> tuple[str | None, str]:
    """How high admission may set the limit, and why it may not (empty: it may)."""
    if quotas:
        return None, f"ResourceQuota {quotas[0]} counts limits.{resource}"
    if by_pod := [r.name for r in ranges if resource in r.by_pod]:
        return None, f"LimitRange {by_pod[0]} bounds {resource} by the pod"
    most = [m for r in ranges if (m := r.most_cpu if resource == "cpu" else r.most_memory)]
    return min([asked, *most], key=lambda text: parse(text) if text else math.inf), ""


def _memory(amount: int) -> str:
    """As a quantity; in Mi where that is exact, because the API server keeps plain bytes as they are."""
    return f"{amount >> 20}Mi" if amount % (1 << 20) == 0 else str(amount)


def _shown(resource: Resource, amount: int) -> str:
    return f"{amount / PERIOD_US:g} cores" if resource == "cpu" else f"{amount / (1 << 20):.0f} MiB"
