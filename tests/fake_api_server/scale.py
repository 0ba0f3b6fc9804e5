"""The scale subresource: an autoscaling/v1 Scale in front of an object's replica count."""

from __future__ import annotations

from typing import Any

from tests.fake_api_server.kinds import Kind, ScalePaths

__all__ = ["scale_of", "with_replicas"]

Json = dict[str, Any]


def scale_of(kind: Kind, obj: Json) -> Json:
    paths = kind.scale or ScalePaths()
    metadata = {
        key: obj["metadata"][key]
        for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if key in obj["metadata"]
    }
    selector = _at(obj, paths.selector)
    if isinstance(selector, dict):  # of a workload: labels, as they are or under matchLabels
        labels = selector.get("matchLabels", selector)
        selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    status = {"replicas": _at(obj, paths.status_replicas) or 0} | ({"selector": selector} if selector else {})
    # Scale leaves out a count of 0.
    spec = {"replicas": replicas} if (replicas := _at(obj, paths.spec_replicas)) else {}
    return {
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec, "status": status,
    }  # fmt: skip


def with_replicas(kind: Kind, obj: Json, scale: Json) -> Json:
    """The object with the count and the preconditions that the Scale names."""
    paths = kind.scale or ScalePaths()
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    _, first, second = paths.spec_replicas.split(".")
    named = {key: v for key in ("uid", "resourceVersion") if (v := (scale.get("metadata") or {}).get(key))}
    return obj | {first: (obj.get(first) or {}) | {second: replicas}, "metadata": obj["metadata"] | named}


def _at(obj: Json, path: str) -> Any:
    at: Any = obj
    for step in path.split(".")[1:]:
        at = at.get(step) if isinstance(at, dict) else None
    return at
