"""Objects as the API server would send them."""

from __future__ import annotations

from typing import Any

from burst_plane.burst_function import BurstFunction, read

__all__ = [
    "Json", "agent_pod", "burst_function", "deployment", "function", "metadata", "network_policy",
    "node_object", "service", "template",
]  # fmt: skip

Json = dict[str, Any]


def metadata(name: str, namespace: str, **more: Any) -> Json:
    return {
        "namespace": namespace,
        "name": name,
        "uid": f"uid-{namespace}-{name}",
        "generation": 3,
        "creationTimestamp": "2026-11-19T02:00:00Z",
        "resourceVersion": "7",
    } | more


def burst_function(
    name: str = "resize", namespace: str = "shop", created: str = "2026-11-19T02:00:00Z", **spec: Any
) -> Json:
    """Of variant `paper`: its numbers are Knative's."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "BurstFunction",
        "metadata": metadata(name, namespace, creationTimestamp=created),
        "spec": {"targetRef": target, "variant": "paper"} | spec,
    }


def function(name: str = "resize", namespace: str = "shop", **spec: Any) -> BurstFunction:
    return read(burst_function(name, namespace, **spec))


def template(**container: Any) -> Json:
    """Of a pod that an emergency instance can stand in for."""
    of = {
        "name": "function",
        "image": "registry.example/resize:1",
        "ports": [{"containerPort": 8080}],
        "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}},
        "securityContext": {"runAsUser": 1000, "allowPrivilegeEscalation": False},
    } | container
    spec = {"containers": [of], "automountServiceAccountToken": False}
    return {"metadata": {"labels": {"app": "resize"}}, "spec": spec}


def deployment(
    name: str = "resize", namespace: str = "shop", replicas: int = 1, ready: int = 1, **container: Any
) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name, namespace, uid=f"uid-of-{namespace}-{name}"),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "resize"}},
            "template": template(**container),
        },
        "status": {"readyReplicas": ready, "replicas": replicas},
    }


def service(name: str = "resize", namespace: str = "shop", port: int | str = 8080) -> Json:
    labels = {"surgekit.dev/burst-function": name}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, namespace, uid=f"uid-service-{namespace}-{name}", labels=labels),
        "spec": {"selector": {"app": "resize"}, "ports": [{"port": 80, "targetPort": port}]},
    }


def network_policy(name: str, namespace: str = "shop", **spec: Any) -> Json:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(name, namespace, uid=f"uid-policy-{namespace}-{name}"),
        "spec": {"podSelector": {}} | spec,
    }


def node_object(name: str = "n1", *, cordoned: bool = False, ready: bool = True) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-node-{name}", "resourceVersion": "7"},
        "spec": {"unschedulable": cordoned},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def agent_pod(node: str = "n1", address: str = "10.0.0.7", namespace: str = "surgekit-agents") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(
            f"pulselet-{node}", namespace, labels={"app.kubernetes.io/name": "surgekit-pulselet"}
        ),
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": "Running", "podIP": address},
    }
