"""What a pod object says: what it asks for, and how far its containers are.

Both the probe and the extender must agree on which pods are being created, so it stands here.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, cast

from surgekit.quantity import QuantityError, parse

__all__ = ["Creation", "PodError", "creation", "image_name", "images", "requests"]

Json = dict[str, Any]

# Waiting for one of these, a container is not being created: the kubelet has put it aside.
_SET_ASIDE = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "RegistryUnavailable",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "CrashLoopBackOff",
    }
)


class PodError(ValueError):
    """A pod that cannot be read; the message names the field."""


class Creation(Enum):
    """How far a bound pod's containers are."""

    CREATING = "creating"
    STARTED = "started"
    SET_ASIDE = "set aside"
    FINISHED = "finished"


def creation(pod: Json) -> Creation:
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return Creation.FINISHED
    wanted = len((pod.get("spec") or {}).get("containers") or ())
    containers = status.get("containerStatuses") or ()
    states = [c.get("state") or {} for c in containers]
    if any(c.get("restartCount") for c in containers):
        return Creation.STARTED  # it has been created once; a restart reuses the sandbox and the image
    if len(states) >= wanted and all("running" in s or "terminated" in s for s in states):
        return Creation.STARTED
    initial = [c.get("state") or {} for c in status.get("initContainerStatuses") or ()]
    if any((s.get("waiting") or {}).get("reason") in _SET_ASIDE for s in states + initial):
        return Creation.SET_ASIDE
    return Creation.CREATING


def images(pod: Json) -> tuple[str, ...]:
    spec = pod.get("spec") or {}
    found = (c.get("image") or "" for c in (*(spec.get("initContainers") or ()), *spec.get("containers", ())))
    return tuple(dict.fromkeys(image_name(i) for i in found if i))


def image_name(name: str) -> str:
    """One spelling per image: nodes report "docker.io/library/nginx:latest" for a spec's "nginx"."""
    short = name.removeprefix("docker.io/").removeprefix("library/")
    return short if "@" in short or ":" in short.rpartition("/")[2] else short + ":latest"


def requests(pod: Json) -> tuple[float, float]:
    """(millicores, bytes) the scheduler sets aside for the pod.

    As kube-scheduler counts: containers and sidecars together, or an init container beside the sidecars
    before it if that is more; pod-level requests replace the sum; a running container being shrunk
    still holds what its status says.
    """
    spec = _mapping(pod.get("spec"), "spec")
    held = {
        c.get("name"): ((c.get("resources") or {}).get("requests") or {})
        for c in (pod.get("status") or {}).get("containerStatuses") or ()
    }
    total = {"cpu": 0.0, "memory": 0.0}
    for i, container in enumerate(_sequence(spec.get("containers"), "spec.containers")):
        where = f"spec.containers[{i}]"
        _mapping(container, where)
        for name in total:
            now = _request(container, name, where)
            before = held.get(container.get("name"), {}).get(name)
            total[name] += max(now, _amount(before, f"status of {where}", name)) if before else now
    peak, sidecars = {"cpu": 0.0, "memory": 0.0}, {"cpu": 0.0, "memory": 0.0}
    for i, container in enumerate(_sequence(spec.get("initContainers"), "spec.initContainers")):
        where = f"spec.initContainers[{i}]"
        _mapping(container, where)
        for name in total:
            amount = _request(container, name, where)
            peak[name] = max(peak[name], sidecars[name] + amount)
            if container.get("restartPolicy") == "Always":
                sidecars[name] += amount
    whole = (spec.get("resources") or {}).get("requests") or {}
    overhead = spec.get("overhead") or {}
    needed = [
        (
            _amount(whole[name], "spec.resources", name)
            if name in whole
            else max(total[name] + sidecars[name], peak[name])
        )
        + (_amount(overhead[name], "spec.overhead", name) if name in overhead else 0.0)
        for name in total
    ]
    return needed[0] * 1000.0, needed[1]


def _request(container: Json, name: str, where: str) -> float:
    wanted = _mapping(container.get("resources"), f"{where}.resources").get("requests")
    value = _mapping(wanted, f"{where}.resources.requests").get(name)
    return 0.0 if value is None else _amount(value, f"{where}.resources.requests", name)


def _amount(value: Any, where: str, name: str) -> float:
    try:
        return parse(value)
    except (QuantityError, TypeError) as error:
        raise PodError(f"{where}.{name}: {error}") from error


def _mapping(value: Any, where: str) -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PodError(f"{where}: expected an object, got {type(value).__name__}")
    return cast(Json, value)


def _sequence(value: Any, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise PodError(f"{where}: expected a list, got {type(value).__name__}")
    return value
