"""The status of a DistributedContainer: what is allocated and used, by whom, and a short history. Pure.

Everything in it is bounded, so that an application of thousands of containers fits into its object: the view
has the containers that need attention most, and counts the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from limit_allocator import conditions
from limit_allocator.allocation.model import PERIOD_US
from limit_allocator.allowance import Allowance
from limit_allocator.membership import Selection
from limit_allocator.view import ContainerView, View
from surgekit.kube.conditions import Condition, stamp
from surgekit.kube.conditions import conditions as in_api_form
from surgekit.process.modes import Mode

__all__ = [
    "HISTORY", "MOST_NODES", "SERIES", "TooManyNodes", "invalid_status", "nodes_before",
    "nodes_status", "says_too_many", "status_of", "too_many_status",
]  # fmt: skip

Json = dict[str, Any]
MOST_NODES = 5000  # Kubernetes' own limit of a cluster
HISTORY = 60  # steps
_LONGEST_REASON = 200
_MIB = 1 << 20
SERIES = ("cpuAllocatedMillicores", "cpuUsedMillicores", "memoryAllocatedMiB", "memoryUsedMiB")


class TooManyNodes(ValueError):
    """More nodes than a status can list: limits on a node that is not listed would be forgotten."""


def status_of(
    before: Json, application: Selection, allowance: Allowance, view: View, now_s: float, step_s: float
) -> Json:
    """The `status` of a merge patch: None removes a key."""
    said = conditions.conditions(application, allowance, view)
    ceilings = {"cpu": allowance.ceiling_cpu, "memory": allowance.ceiling_memory}
    return {
        "observedGeneration": application.spec.generation,
        "mode": str(application.mode),
        "limit": _resources(allowance.cpu_us, allowance.memory_bytes),
        "allocated": _resources(view.allocated_cpu_us, view.allocated_memory_bytes),
        "used": _resources(view.used_cpu_us, view.used_memory_bytes),
        "unallocated": _resources(
            max(allowance.cpu_us - view.allocated_cpu_us, 0),
            max(allowance.memory_bytes - view.allocated_memory_bytes, 0),
        ),
        # Admission reads it: without it, or without a resource in it, new pods keep their authors' limits.
        "ceilings": ceilings if application.enforces else {"cpu": None, "memory": None},
        "pods": len(application.pods),
        "containerCount": view.container_count,
        "containers": [_container(c) for c in view.containers],
        "eventsSurvived": view.events_survived,
        "oomKills": view.oom_kills,
        "leftAlone": _left_alone(application),
        "history": _history(before, view, now_s, step_s),
        "observedTime": stamp(now_s),
        "conditions": _conditions(before, said, application.spec.generation, now_s),
    } | nodes_status(view.nodes)


def invalid_status(before: Json, generation: int, why: str, now_s: float) -> Json:
    return {"conditions": _conditions(before, conditions.invalid(why), generation, now_s)}


def too_many_status(before: Json, generation: int, most: int, now_s: float) -> Json:
    """For one that does not count. Admission must find no ceilings in it."""
    return {
        "observedGeneration": generation,
        "mode": str(Mode.OFF),
        "ceilings": {"cpu": None, "memory": None},
        "conditions": _conditions(before, conditions.too_many(most), generation, now_s),
    }


def says_too_many(status: Json, generation: int) -> bool:
    return status.get("observedGeneration") == generation and any(
        c["reason"] == "TooMany" for c in status.get("conditions") or ()
    )


def nodes_status(nodes: frozenset[str]) -> Json:
    """The nodes that hold limits. Written before the first limit is sent to a new one, so that the next
    controller knows which agents to hear before it allots what looks free."""
    if len(nodes) > MOST_NODES:
        raise TooManyNodes(f"status.nodes: {len(nodes)} nodes, more than {MOST_NODES}")
    return {"nodes": sorted(nodes)}


def nodes_before(status: Json) -> frozenset[str]:
    """What the controller before wrote. Nonsense counts as no node: only a controller can write it."""
    nodes = status.get("nodes")
    return frozenset(n for n in nodes if isinstance(n, str)) if isinstance(nodes, list) else frozenset()


def _conditions(before: Json, said: Sequence[Condition], generation: int, now_s: float) -> list[Json]:
    short = [Condition(c.type, c.holds, c.reason, c.message[:1000]) for c in said]
    return in_api_form(before, short, generation, now_s)


def _resources(cpu_us: int, memory_bytes: int) -> Json:
    return {"cpu": f"{_millicores(cpu_us)}m", "memory": f"{memory_bytes // _MIB}Mi"}


def _millicores(cpu_us: int) -> int:
    return cpu_us * 1000 // PERIOD_US


def _container(c: ContainerView) -> Json:
    return {
        "pod": c.pod,
        "container": c.container,
        "node": c.node,
        "cpuMillicores": _millicores(c.cpu_limit_us),
        "cpuUsedMillicores": _millicores(c.cpu_used_us),
        "throttledPercent": round(100 * c.throttled),
        "memoryMiB": c.memory_limit_bytes // _MIB,
        "memoryUsedMiB": c.memory_used_bytes // _MIB,
    } | (
        {"changedTime": stamp(c.changed_at_s), "reason": c.reason[:_LONGEST_REASON]} if c.changed_at_s else {}
    )


def _left_alone(application: Selection) -> list[Json]:
    counts = Counter(str(reason) for _, reason in application.left_alone)
    example = {str(reason): pod.name for pod, reason in reversed(application.left_alone)}
    return [{"reason": r, "pods": counts[r], "example": example[r]} for r in sorted(counts)]


def _history(before: Json, view: View, now_s: float, step_s: float) -> Json:
    """The last `HISTORY` steps, the newest last. One that another step length wrote is dropped."""
    history = before.get("history")
    history = history if isinstance(history, dict) and history.get("stepSeconds") == step_s else {}
    values = (
        _millicores(view.allocated_cpu_us),
        _millicores(view.used_cpu_us),
        view.allocated_memory_bytes // _MIB,
        view.used_memory_bytes // _MIB,
    )
    series = {}
    for name, value in zip(SERIES, values, strict=True):
        earlier = history.get(name)
        known = [v for v in earlier if isinstance(v, int)] if isinstance(earlier, list) else []
        series[name] = [*known, value][-HISTORY:]
    if len({len(values) for values in series.values()}) > 1:  # somebody edited it
        series = {name: values[-1:] for name, values in series.items()}
    return {"stepSeconds": step_s, "endTime": stamp(now_s)} | series
