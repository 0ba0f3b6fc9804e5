"""Reads Knative Services and Revisions, as far as requests and regular instances depend on them. Pure.

Written by tenants or by controllers on their behalf: readers raise on nonsense, and the object has no row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surgekit.kube.api_path import Resource, is_name
from surgekit.kube.checked import checked

__all__ = [
    "API_VERSION",
    "REVISIONS",
    "SERVICES",
    "KnativeService",
    "Revision",
    "read_revision",
    "read_service",
]

Json = dict[str, Any]
API_VERSION = "serving.knative.dev/v1"
SERVICES, REVISIONS = Resource(API_VERSION, "services"), Resource(API_VERSION, "revisions")
_MOST_CONCURRENCY = 1000  # Knative's own bound (config-defaults, container-concurrency-max-limit)
_HTTP2 = "h2c"  # the name of a container port that takes HTTP/2 only


@dataclass(frozen=True, slots=True)
class KnativeService:
    """A Knative Service: the revisions that its traffic goes to now."""

    revisions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Revision:
    uid: str
    concurrency: int  # requests that a pod takes at once; 0: no limit
    http2: bool
    ready: int  # pods
    wanted: int  # by Knative's autoscaler


@checked
def read_service(obj: Json) -> KnativeService:
    """By the traffic in its status, which is in force. A target without a share of the traffic has a tag,
    and a host of its own."""
    found = []
    for target in (obj.get("status") or {}).get("traffic") or ():
        name = target.get("revisionName") or ""
        if (target.get("percent") or 0) > 0 and name not in found:
            if not is_name(name):
                raise ValueError(f"status.traffic: {name!r:.100} is no revision's name")
            found.append(name)
    return KnativeService(tuple(found))


@checked
def read_revision(obj: Json) -> Revision:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    concurrency = spec.get("containerConcurrency") or 0
    if not 0 <= concurrency <= _MOST_CONCURRENCY:
        raise ValueError(
            f"spec.containerConcurrency: must be 0 to {_MOST_CONCURRENCY}, is {concurrency!r:.40}"
        )
    ports = [port for of in spec.get("containers") or () for port in of.get("ports") or ()]
    return Revision(
        obj["metadata"]["uid"],
        concurrency,
        any(port.get("name") == _HTTP2 for port in ports),
        max(status.get("actualReplicas") or 0, 0),
        max(status.get("desiredReplicas") or 0, 0),
    )
