"""Reads pod objects: resource requests, images, and how far the containers are created.

It is shared because the probe and the extender must agree on which pods are being created.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from surgekit.kube.quantity import QuantityError, parse

__all__ = ["Creation", "PodError", "creation", "image_name", "images", "requests"]

Json = dict[str, Any]

# A container that waits with one of these reasons is not being created: the kubelet has set it aside.
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
    """The pod cannot be read; the message names the field."""


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
        return Creation.STARTED  # a restart reuses the sandbox and the image
    if len(states) >= wanted and all("running" in s or "terminated" in s for s in states):
        return Creation.STARTED
    initial = [c.get("state") or {} for c in status.get("initContainerStatuses") or ()]
    if any((s.get("waiting") or {}).get("reason") in _SET_ASIDE for s in states + initial):
        return Creation.SET_ASIDE
    return Creation.CREATING


def images(pod: Json) -> tuple[str, ...]:
    spec = pod.get("spec") or {}
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    found = (c.get("image") or "" for c in containers)
    return tuple(dict.fromkeys(image_name(i) for i in found if i))


def image_name(name: str) -> str:
    """One spelling per image: nodes report "docker.io/library/nginx:latest" for a spec's "nginx"."""
    short = name.removeprefix("docker.io/").removeprefix("library/")
    return short if "@" in short or ":" in short.rpartition("/")[2] else short + ":latest"


def requests(pod: Json) -> tuple[float, float]:
    """(millicores, bytes) that the scheduler reserves for the pod.

    Counts as kube-scheduler 1.36 does (PodRequests of k8s.io/component-helpers/resource): the sum of
    containers and sidecars, or an init container plus the sidecars before it if that is more. Pod-level
    requests replace the sum. During a resize in place the largest of requested, allocated and actual counts;
    the requested amount does not once the kubelet has called it Infeasible.
    """
    return _requested(pod, "cpu") * 1000.0, _requested(pod, "memory")


def _requested(pod: Json, resource: str) -> float:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    refused = _resize_is_infeasible(status)
    statuses = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    has = {c.get("name"): c for c in statuses}
    total = peak = sidecars = 0.0
    for i, container in enumerate(spec.get("containers") or ()):
        asked = _amount(container.get("resources"), resource, f"spec.containers[{i}].resources")
        total += _counted(asked, has.get(container.get("name")), resource, refused)
    for i, container in enumerate(spec.get("initContainers") or ()):
        amount = _amount(container.get("resources"), resource, f"spec.initContainers[{i}].resources")
        sidecar = container.get("restartPolicy") == "Always"
        if sidecar:
            amount = _counted(amount, has.get(container.get("name")), resource, refused)
        peak = max(peak, sidecars + amount)
        sidecars += amount if sidecar else 0.0
    whole = spec.get("resources")
    if whole and resource in (whole.get("requests") or {}):
        needed = _counted(_amount(whole, resource, "spec.resources"), status, resource, refused)
    else:
        needed = max(total + sidecars, peak)
    return needed + _amount({"requests": spec.get("overhead")}, resource, "spec.overhead")


def _counted(asked: float, status: Json | None, resource: str, refused: bool) -> float:
    """The amount that counts for a container, or for a pod with pod-level requests, given its status."""
    if not status or status.get("resources") is None:
        return asked
    granted = _amount({"requests": status.get("allocatedResources")}, resource, "status.allocatedResources")
    held = max(_amount(status["resources"], resource, "status.resources"), granted)
    return held if refused else max(asked, held)


def _resize_is_infeasible(status: Json) -> bool:
    return any(
        c.get("type") == "PodResizePending" and c.get("reason") == "Infeasible"
        for c in status.get("conditions") or ()
    )


def _amount(resources: Json | None, resource: str, where: str) -> float:
    value = ((resources or {}).get("requests") or {}).get(resource)
    if value is None:
        return 0.0
    try:
        return parse(value)
    except QuantityError as error:
        raise PodError(f"{where}.requests.{resource}: {error}") from error
