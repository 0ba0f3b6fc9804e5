"""cpu and memory of containers as numbers, so that "1" equals "1000m". Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from combofunc.planner.model import Size
from surgekit.kube.quantity import QuantityError, parse

__all__ = ["Resources", "amounts_of", "includes", "of_size", "requested", "resize_patch", "written"]

Json = dict[str, Any]
# Container -> (requests or limits, cpu or memory) -> amount in cores or bytes.
Resources = Mapping[str, Mapping[tuple[str, str], float]]
_PARTS, _RESIZABLE = ("requests", "limits"), ("cpu", "memory")


def amounts_of(containers: Iterable[Json]) -> Resources:
    """Read containers or containerStatuses. An amount that cannot be read is left out and equals nothing."""
    return {c.get("name", ""): _amounts(c.get("resources") or {}) for c in containers}


def _amounts(resources: Json) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for part in _PARTS:
        for name, value in (resources.get(part) or {}).items():
            if name in _RESIZABLE:
                try:
                    found[part, name] = parse(value)
                except QuantityError:
                    continue
    for name in _RESIZABLE:  # the API server sets a missing request to the limit
        if ("limits", name) in found:
            found.setdefault(("requests", name), found["limits", name])
    return found


def includes(resources: Resources, wanted: Resources) -> bool:
    """Whether all wanted amounts are set. Others may be set too, for example by a LimitRange."""
    return all(
        name in resources and amounts.items() <= resources[name].items() for name, amounts in wanted.items()
    )


def of_size(size: Size, container: str) -> Resources:
    """Resources of the sized container: limits equal requests, so that it can use exactly what is planned."""
    amounts = {"cpu": size.cpu_millicores / 1000, "memory": float(size.memory_bytes)}
    return {container: {(part, name): amounts[name] for part in _PARTS for name in _RESIZABLE}}


def requested(resources: Resources, container: str) -> tuple[int, int]:
    """(millicores, bytes) that the container requests."""
    of = resources.get(container, {})
    return round(of.get(("requests", "cpu"), 0.0) * 1000), round(of.get(("requests", "memory"), 0.0))


def resize_patch(wanted: Resources) -> Json:
    """Body for a pod's `resize` subresource: a strategic merge patch, which merges containers by name."""
    containers = []
    for name, amounts in wanted.items():
        resources: Json = {}
        for (part, resource), amount in amounts.items():
            resources.setdefault(part, {})[resource] = written(resource, amount)
        containers.append({"name": name, "resources": resources})
    return {"spec": {"containers": containers}}


def written(resource: str, amount: float) -> str:
    """A Kubernetes quantity in whole millicores or bytes, in a readable unit."""
    if resource == "cpu":
        return f"{round(amount * 1000)}m"
    for unit, suffix in ((2**30, "Gi"), (2**20, "Mi")):
        if round(amount) % unit == 0:
            return f"{round(amount) // unit}{suffix}"
    return str(round(amount))
