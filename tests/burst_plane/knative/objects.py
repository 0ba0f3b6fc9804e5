"""Objects as Knative Serving v0.50.0 makes them of one Service, as far as we read them."""

from __future__ import annotations

from typing import Any

from tests.burst_plane.objects import Json, metadata, template
from tests.fake_api_server.kinds import Kind

__all__ = ["KINDS", "Json", "burst", "knative_service", "revision", "revision_deployment", "revision_pod"]

API_VERSION = "serving.knative.dev/v1"
KINDS = (
    Kind(API_VERSION, "services", "Service", custom=True),
    Kind(API_VERSION, "revisions", "Revision", custom=True),
)
_HOOK = {"preStop": {"httpGet": {"path": "/wait-for-drain", "port": 8022, "scheme": "HTTP"}}}


def burst(name: str = "resize", kind: str = "Service", target: str = "resize", **spec: Any) -> Json:
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "BurstFunction",
        "metadata": metadata(name, "shop"),
        "spec": {"targetRef": {"apiVersion": API_VERSION, "kind": kind, "name": target}, "mode": "enforce"}
        | spec,
    }


def knative_service(*traffic: Json, name: str = "resize") -> Json:
    targets = list(traffic) or [{"revisionName": f"{name}-00001", "percent": 100, "latestRevision": True}]
    return {
        "apiVersion": API_VERSION,
        "kind": "Service",
        "metadata": metadata(name, "shop", uid=f"uid-knative-{name}"),
        "spec": {"template": {"spec": {"containerConcurrency": 4}}},
        "status": {"traffic": targets},
    }


def revision(name: str = "resize-00001", port: str = "http1", ready: int = 1, **spec: Any) -> Json:
    containers = [{"image": "x", "ports": [{"name": port, "containerPort": 8080}]}]
    return {
        "apiVersion": API_VERSION,
        "kind": "Revision",
        "metadata": metadata(name, "shop", uid=f"uid-{name}"),
        "spec": {"containerConcurrency": 4, "containers": containers} | spec,
        "status": {"actualReplicas": ready, "desiredReplicas": ready},
    }


def revision_pod(**container: Any) -> Json:
    """The template of a revision's Deployment."""
    of = template(**container)
    own = of["spec"]["containers"][0] | {
        "name": "user-container",
        "ports": [{"name": "user-port", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": "PORT", "value": "8080"}, {"name": "K_REVISION", "value": "resize-00001"}],
        "lifecycle": _HOOK,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    proxy = {
        "name": "queue-proxy",
        "image": "queue",
        "ports": [{"name": "queue-port", "containerPort": 8012}],
        "env": [{"name": "SERVING_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "volumeMounts": [{"name": "pod-info", "mountPath": "/etc/podinfo"}],
    }
    volumes = [{"name": "pod-info", "downwardAPI": {}}]
    of["spec"] |= {"containers": [own, proxy], "volumes": volumes, "terminationGracePeriodSeconds": 300}
    return of


def revision_deployment(name: str = "resize-00001", **container: Any) -> Json:
    uid = f"uid-{name}"
    owner = {"apiVersion": API_VERSION, "kind": "Revision", "name": name, "uid": uid, "controller": True}
    labels = {"serving.knative.dev/revisionUID": uid}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(
            f"{name}-deployment", "shop", uid=f"uid-of-{name}", labels=labels, ownerReferences=[owner]
        ),
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": revision_pod(**container)},
        "status": {"readyReplicas": 1, "replicas": 1},
    }
