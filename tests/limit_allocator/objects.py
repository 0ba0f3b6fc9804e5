"""Objects and values for the tests of the Kubernetes side."""

from __future__ import annotations

import json
from typing import Any

from limit_allocator.distributed_container import DistributedContainer, read
from limit_allocator.pod import ORIGINAL, Pod, read_pod

Json = dict[str, Any]
LIMITS = {"cpu": "500m", "memory": "128Mi"}
REQUESTS = {"cpu": "100m", "memory": "64Mi"}


def distributed_container(name: str = "web", namespace: str = "shop", created: int = 1, **spec: Any) -> Json:
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "DistributedContainer",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "generation": 3,
            "creationTimestamp": f"2026-01-{created:02}T00:00:00Z",
        },
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "cpu": "4",
            "memory": "1Gi",
            "mode": "enforce",
            "parameters": {"variant": "best"},
        }
        | spec,
    }


def application(
    name: str = "web", namespace: str = "shop", created: int = 1, **spec: Any
) -> DistributedContainer:
    return read(distributed_container(name, namespace, created, **spec))


def container(
    name: str = "c", limits: Json | None = LIMITS, requests: Json | None = REQUESTS, **more: Any
) -> Json:
    resources = {"limits": limits, "requests": requests}
    return {"name": name, "resources": {k: v for k, v in resources.items() if v is not None}} | more


def pod_object(
    name: str = "p",
    *containers: Json,
    namespace: str = "shop",
    node: str = "n1",
    original: Json | None = None,
    labels: Json | None = None,
    phase: str = "Running",
    **spec: Any,
) -> Json:
    annotations = {ORIGINAL: json.dumps(original)} if original else {}
    listed = list(containers) or [container()]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "labels": {"app": "web"} if labels is None else labels,
            "annotations": annotations,
        },
        "spec": {"nodeName": node, "containers": listed} | spec,
        "status": {
            "phase": phase,
            "containerStatuses": [
                {"name": c["name"], "containerID": f"containerd://id-{name}-{c['name']}"} for c in listed
            ],
        },
    }


def pod(name: str = "p", *containers: Json, **more: Any) -> Pod:
    return read_pod(pod_object(name, *containers, **more))
