"""Objects in which anything may be anything, and the objects they are made from."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]
ODD_TEXTS = [
    "", "9" * 5000, "nan", "inf", "-1", "1e999", "0x10", "1_000", " 1", "٣", "²", "\u202e", "\x00", "é" * 300,
    "../../x", "true", "9E",
]  # fmt: skip
_TEXTS = st.sampled_from(ODD_TEXTS) | st.text(max_size=20)
_VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=True, allow_infinity=True)
    | _TEXTS
)
JUNK = st.recursive(
    _VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)
# Of these the API server vouches: it wrote them, or checked them before anything else.
_IDENTITY = frozenset({"uid", "name", "namespace", "resourceVersion"})


@st.composite
def spoilt(draw: st.DrawFn, original: Json) -> Json:
    """The object under another name, with one to four of its parts replaced, removed or added."""
    obj = copy.deepcopy(original)
    obj["metadata"] |= {"uid": "bad", "name": "bad"}
    for _ in range(draw(st.integers(1, 4))):
        _spoil(draw, obj, top=True)
    return obj


def _spoil(draw: st.DrawFn, within: Any, top: bool = False) -> None:
    while True:
        keys: list[Any] = list(within) if isinstance(within, dict) else list(range(len(within)))
        if top:
            keys = [key for key in keys if key != "metadata"] + ["metadata"]
        else:
            keys = [key for key in keys if key not in _IDENTITY]
        if not keys or (not top and draw(st.integers(0, 5)) == 0):
            if isinstance(within, dict):
                within[draw(_TEXTS)] = draw(JUNK)
            return
        key = draw(st.sampled_from(keys))
        deeper = isinstance(within[key], dict | list) and within[key]
        if (top and key == "metadata") or (deeper and draw(st.integers(0, 3))):
            within, top = within[key], False
            continue
        within[key] = draw(JUNK)
        return


def metadata(name: str, namespace: str = "shop", **more: Any) -> Json:
    return {
        "name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "7", "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"}, "annotations": {},
    } | more  # fmt: skip


_AMOUNTS = {"cpu": "500m", "memory": "256Mi"}
_FUNCTION = {
    "apiVersion": "surgekit.dev/v1alpha1", "kind": "ComboFunc", "name": "f", "uid": "uid-f",
    "controller": True,
}  # fmt: skip


def pod(name: str = "good", node: str = "n1", **spec: Any) -> Json:
    """A ComboFunc's, with everything a reader looks at."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(
            name,
            labels={"app": "web", "surgekit.dev/combofunc": "f", "surgekit.dev/size": "small"},
            annotations={"surgekit.dev/concurrency": "4", "surgekit.dev/planned-node": "n1"},
            ownerReferences=[dict(_FUNCTION)],
        ),
        "spec": {
            "nodeName": node,
            "nodeSelector": {"surgekit.dev/pool": "fcma"},
            "tolerations": [{"key": "surgekit.dev/pool", "operator": "Exists", "effect": "NoSchedule"}],
            "schedulingGates": [{"name": "surgekit.dev/node-plan"}] if not node else [],
            "initContainers": [{"name": "i", "image": "i:1", "resources": {"requests": dict(_AMOUNTS)}}],
            "containers": [
                {
                    "name": "c",
                    "image": "c:1",
                    "ports": [{"hostPort": 80}],
                    "resources": {"requests": dict(_AMOUNTS), "limits": dict(_AMOUNTS)},
                }
            ],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                        ]
                    }
                },
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": {"matchLabels": {"app": "web"}},
                        }
                    ]
                },
            },
            "topologySpreadConstraints": [
                {"whenUnsatisfiable": "ScheduleAnyway", "topologyKey": "kubernetes.io/hostname"}
            ],
            "overhead": {"cpu": "10m"},
        }
        | spec,
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "PodResizePending", "status": "False", "reason": "Deferred"},
            ],
            "containerStatuses": [
                {
                    "name": "c",
                    "restartCount": 0,
                    "state": {"running": {}},
                    "allocatedResources": dict(_AMOUNTS),
                    "resources": {"requests": dict(_AMOUNTS), "limits": dict(_AMOUNTS)},
                }
            ],
            "initContainerStatuses": [{"name": "i", "state": {"terminated": {}}}],
        },
    }


def node(name: str = "n1") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(name, labels={"surgekit.dev/pool": "fcma", "a": "b"}) | {"namespace": None},
        "spec": {
            "providerID": "p://1",
            "taints": [{"key": "surgekit.dev/pool", "value": "fcma", "effect": "NoSchedule"}],
        },
        "status": {
            "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": ["c:1", "docker.io/library/nginx:latest"]}],
        },
    }


def speed(name: str = "n1") -> Json:
    status = {
        "tauCreateSeconds": 1.5, "tauResizeSeconds": 0.1, "imagePulls": [{"image": "c:1", "seconds": 2.0}],
    }  # fmt: skip
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "NodeSpeed",
        "metadata": metadata(name) | {"namespace": None},
        "status": status,
    }


def namespace(name: str = "shop") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": metadata(name, labels={"surgekit.dev/placement": "enforce"}) | {"namespace": None},
    }


def combofunc(name: str = "f") -> Json:
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "ComboFunc",
        "metadata": metadata(name),
        "spec": {
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"note": "x"}},
                "spec": {
                    "nodeSelector": {"a": "b"},
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "c", "image": "c:1", "resources": {"limits": {"cpu": "1"}}}],
                },
            },
            "sizes": [{"name": "small", "cpu": "500m", "memory": "256Mi", "concurrency": 4}],
            "targetConcurrency": 8,
            "collector": {"window": "60s"},
        },
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}]},
    }


def in_place_deployment(name: str = "web") -> Json:
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "InPlaceDeployment",
        "metadata": metadata(name),
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{"name": "c", "image": "c:1", "resources": {"limits": {"cpu": "1"}}}]
                },
            },
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
        },
    }


def kneepolicy(name: str = "good") -> Json:
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "KneePolicy",
        "metadata": metadata(name),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "mode": "enforce",
            "maxReplicas": 40,
            "samplingInterval": "30s",
            "metrics": {"preset": "http", "queries": {"latency": "x"}},
            "thresholds": {"cpuDrop": 0.5},
            "budget": {"replicaIntervals": 5, "window": "1h"},
            "search": {"variant": "best"},
        },
        "status": {"targetReplicas": 3, "decidedAt": "2026-01-01T00:00:00Z", "observedGeneration": 1},
    }


def distributed_container(name: str = "good") -> Json:
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "DistributedContainer",
        "metadata": metadata(name),
        "spec": {
            "selector": {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}],
            },
            "cpu": "4",
            "memory": "1Gi",
            "mode": "enforce",
            "parameters": {"variant": "best", "kappa": 0.8, "windowPeriods": 10},
        },
        "status": {"conditions": [{"type": "Enforced", "status": "True", "reason": "Enforcing"}]},
    }


def resource_quota(name: str = "good") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata(name),
        "spec": {"hard": {"limits.cpu": "3", "limits.memory": "8Gi", "pods": "10"}},
    }


def limit_range(name: str = "good") -> Json:
    limits = [
        {"type": "Container", "max": {"cpu": "2"}, "maxLimitRequestRatio": {"memory": "4"}},
        {"type": "Pod", "max": {"memory": "4Gi"}},
    ]
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": metadata(name),
        "spec": {"limits": limits},
    }


def hpa(name: str = "good") -> Json:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(name),
        "spec": {"scaleTargetRef": reference},
    }


def endpoint_slice(name: str = "good") -> Json:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata(name, labels={"surgekit.dev/combofunc": "f"}),
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [
            {
                "addresses": ["10.0.0.1"],
                "conditions": {"ready": True},
                "targetRef": {"kind": "Pod", "uid": "uid-good"},
            }
        ],
    }


def event(name: str = "good") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata(name),
        "reason": "Pulled",
        "message": 'Successfully pulled image "c:1" in 1.25s (3s including waiting). Image size: 77 bytes.',
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "involvedObject": {"kind": "Pod", "uid": "uid-good"},
        "source": {"host": "n1"},
    }


def claim(name: str = "good") -> Json:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": metadata(
            name,
            labels={"surgekit.dev/pool": "fcma"},
            annotations={"surgekit.dev/planned": '{"a": 2}'},
        )
        | {"namespace": None},
        "spec": {
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}
            ],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        },
        "status": {"providerID": "p://1", "conditions": [{"type": "Launched", "status": "True"}]},
    }


def daemon_set(name: str = "good") -> Json:
    spec = {
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "d", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(name, "kube-system"),
        "spec": {"template": {"spec": spec}},
    }


def pod_autoscaler(name: str = "good") -> Json:
    return {
        "apiVersion": "autoscaling.internal.knative.dev/v1alpha1",
        "kind": "PodAutoscaler",
        "metadata": metadata(
            name,
            annotations={
                "autoscaling.knative.dev/class": "knee.surgekit.dev",
                "autoscaling.knative.dev/max-scale": "10",
            },
        ),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "protocolType": "http1",
        },
    }


def burst_function(name: str = "good") -> Json:
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "BurstFunction",
        "metadata": metadata(name),
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "mode": "enforce",
            "concurrency": 1,
            "keepalive": "60s",
            "thresholdPercentile": 50,
            "scaling": {"via": "scale", "minReplicas": 0, "maxReplicas": 10},
        },
        "status": {
            "mode": "enforce",
            "interArrivals": {"seconds": [1.0], "number": [4], "savedTime": "2026-01-01T00:00:00Z"},
            "conditions": [{"type": "Overflow", "status": "True", "reason": "Enforcing"}],
        },
    }


def deployment(name: str = "good") -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name, annotations={"surgekit.dev/burst": "shadow"}),
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {}}},
        "status": {"readyReplicas": 2, "replicas": 2},
    }


def service(name: str = "good") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, labels={"surgekit.dev/burst-function": "good"}),
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }


def network_policy(name: str = "good") -> Json:
    expression = {"key": "app", "operator": "In", "values": ["web"]}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(name),
        "spec": {
            "podSelector": {"matchExpressions": [expression]},
            "policyTypes": ["Ingress", "Egress"],
            "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
        },
    }
