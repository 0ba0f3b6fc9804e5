"""Objects as the API server would send them."""

from __future__ import annotations

from typing import Any

from burst_plane.burst_function import BurstFunction, read

Json = dict[str, Any]


def burst_function(name: str = "resize", namespace: str = "shop", **spec: Any) -> Json:
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "BurstFunction",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"uid-{namespace}-{name}",
            "generation": 3,
            "creationTimestamp": "2026-11-19T02:00:00Z",
            "resourceVersion": "7",
        },
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}} | spec,
    }


def function(name: str = "resize", namespace: str = "shop", **spec: Any) -> BurstFunction:
    return read(burst_function(name, namespace, **spec))
