"""cpu and memory of containers, comparable however they are written ("1" and "1000m")."""

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
    """Of containers or of containerStatuses. What cannot be read is left out: then nothing equals it."""
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
    for name in _RESIZABLE:  # as the API server fills in a request that is left out
        if ("limits", name) in found:
            found.setdefault(("requests", name), found["limits", name])
    return found


def includes(resources: Resources, wanted: Resources) -> bool:
    """Whether all that `wanted` says holds. What it does not say others may set (a LimitRange)."""
    return all(
        name in resources and amounts.items() <= resources[name].items() for name, amounts in wanted.items()
    )


def of_size(size: Size, container: str) -> Resources:
    """The sized container's: requests and limits alike, so that what is planned is what it can use."""
    amounts = {"cpu": size.cpu_millicores / 1000, "memory": float(size.memory_bytes)}
    return {container: {(part, name): amounts[name] for part in _PARTS for name in _RESIZABLE}}


def requested(resources: Resources, container: str) -> tuple[int, int]:
    """(millicores, bytes) that one container requests."""
    of = resources.get(container, {})
    return round(of.get(("requests", "cpu"), 0.0) * 1000), round(of.get(("requests", "memory"), 0.0))


def resize_patch(wanted: Resources) -> Json:
    """The body for a pod's `resize` subresource (a strategic merge patch: containers go by name)."""
    containers = []
    for name, amounts in wanted.items():
        resources: Json = {}
        for (part, resource), amount in amounts.items():
            resources.setdefault(part, {})[resource] = written(resource, amount)
        containers.append({"name": name, "resources": resources})
    return {"spec": {"containers": containers}}


def written(resource: str, amount: float) -> str:
    """As a quantity: whole millicores, whole bytes, in the unit people would use."""
    if resource == "cpu":
        return f"{round(amount * 1000)}m"
    for unit, suffix in ((2**30, "Gi"), (2**20, "Mi")):
        if round(amount) % unit == 0:
            return f"{round(amount) // unit}{suffix}"
    return str(round(amount))
