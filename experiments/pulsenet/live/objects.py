"""The objects of an arm: a BurstFunction, a Deployment and a Service for each function. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kwok.burst.images import PYTHON
from kwok.traffic.function_process import CONTAINER, FUNCTION, POD_PORT
from surgekit.kube.conditions import Condition, conditions, stamp

__all__ = ["MODEL", "NAMESPACE", "PROBE", "PROBE_REPLICAS", "objects", "status"]

Json = dict[str, Any]
NAMESPACE = "play"
# A function that always has idle instances, which nobody scales: what a request takes on this machine.
PROBE, PROBE_REPLICAS = "probe", 4
MODEL = "hello"  # the one function of the traffic model: a path says how long a request takes
# An instance has a core, as in the paper (section 3.1). What a container needs; costs are counted with the
# trace's memory instead.
_RESOURCES = {"cpu": "1", "memory": "64Mi"}
# Knative gives a pod the request's time-out, 300 s, to end. Kubernetes' 30 s would cut off long requests.
_GRACE_S = 300


def objects(names: Sequence[str], replicas: Sequence[int], variant: str, keepalive_s: float) -> list[Json]:
    made: list[Json] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "surgekit-burst-templates", "namespace": NAMESPACE},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "surgekit-burst-templates",
            },
            "subjects": [
                {
                    "kind": "ServiceAccount",
                    "name": "surgekit-burst-controller",
                    "namespace": "surgekit-system",
                }
            ],
        },
    ]
    for name, number in zip(names, replicas, strict=True):
        made += _of(name, number, variant, keepalive_s)
    return made + _of(PROBE, PROBE_REPLICAS, variant, keepalive_s, mode="off")


def status(history: Sequence[tuple[float, int]], overflows: bool, now_s: float) -> Json:
    """What a controller would have written before the run: the filter's history of the hour before, and for
    the systems without one, that HAProxy asks when no slot is free."""
    said = [Condition("Overflow", overflows, "Enforcing", "set by the bench")]
    return {
        "interArrivals": {
            "savedTime": stamp(now_s),
            "seconds": [iat_s for iat_s, _ in history],
            "number": [number for _, number in history],
            "counts": False,
        },
        "conditions": conditions({}, said, 1, now_s),
    }


def _of(name: str, replicas: int, variant: str, keepalive_s: float, mode: str = "enforce") -> list[Json]:
    labels = {"app": name}
    return [
        {
            "apiVersion": "surgekit.dev/v1alpha1",
            "kind": "BurstFunction",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "mode": mode,
                "variant": variant,
                "keepalive": f"{keepalive_s:g}s",
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels | {FUNCTION: MODEL}},
                    "spec": {
                        "automountServiceAccountToken": False,
                        "terminationGracePeriodSeconds": _GRACE_S,
                        "containers": [
                            {
                                "name": CONTAINER,
                                "image": PYTHON,
                                "ports": [{"containerPort": POD_PORT}],
                                "securityContext": {"runAsUser": 1000, "allowPrivilegeEscalation": False},
                                "resources": {"limits": _RESOURCES},
                            }
                        ],
                    },
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "labels": {"surgekit.dev/burst-function": name},
            },
            "spec": {
                "selector": labels,
                "ports": [{"name": "http", "port": 80, "targetPort": POD_PORT}],
            },
        },
    ]
