"""A made-up cluster as the API server tells it: lists in JSON, then changes of pods."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random
from typing import Any

import orjson

__all__ = ["FakeCluster"]

Json = dict[str, Any]
_TYPES = ("m5.large", "m5.xlarge", "c5.2xlarge", "r5.large")
_ZONES = ("a", "b", "c")


class FakeCluster:
    """Pods of Deployments with a KneePolicy each. A change takes a pod a step on: bound, Ready, gone."""

    def __init__(self, seed: int, nodes: int, pods: int, functions: int, now_s: float) -> None:
        self._random, self._now_s = Random(seed), now_s
        self._nodes, self._functions = nodes, functions
        self._steps = dict.fromkeys(range(pods), 2)  # of each pod: 0 pending, 1 bound, 2 Ready

    def nodes(self) -> list[bytes]:
        return [orjson.dumps(self._node(i)) for i in range(self._nodes)]

    def speeds(self) -> list[bytes]:
        return [orjson.dumps(self._speed(i)) for i in range(self._nodes)]

    def pods(self) -> list[bytes]:
        return [orjson.dumps(self._pod(i)) for i in self._steps]

    def policies(self) -> list[bytes]:
        return [orjson.dumps(self._policy(i)) for i in range(self._functions)]

    def changes(self, count: int) -> Iterator[tuple[str, bytes]]:
        """("MODIFIED" or "DELETED", the pod)."""
        for i in self._random.sample(sorted(self._steps), min(count, len(self._steps))):
            before = self._steps[i]
            self._steps[i] = (before + 1) % 3
            yield "DELETED" if before == 2 else "MODIFIED", orjson.dumps(self._pod(i))

    def _stamp(self, ago_s: float = 0.0) -> str:
        return datetime.fromtimestamp(self._now_s - ago_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _node(self, i: int) -> Json:
        labels = {
            "node.kubernetes.io/instance-type": _TYPES[i % len(_TYPES)],
            "topology.kubernetes.io/zone": f"eu-west-1{_ZONES[i % len(_ZONES)]}",
            "karpenter.sh/nodepool": "default",
            "surgekit.dev/price-per-hour": f"{0.1 * (1 + i % 4):.3f}",
        }
        return {
            "metadata": {"name": f"node-{i}", "uid": f"node-{i}", "labels": labels},
            "spec": {},
            "status": {
                "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "images": [{"names": [f"registry/image-{n}:1"], "sizeBytes": 10**8} for n in range(20)],
            },
        }

    def _speed(self, i: int) -> Json:
        return {
            "metadata": {"name": f"node-{i}", "uid": f"speed-{i}"},
            "status": {
                "tauCreateSeconds": round(self._random.lognormvariate(0.0, 0.34), 3),
                "samples": 30,
                "source": "measured",
                "lastSampleTime": self._stamp(60.0),
            },
        }

    def _pod(self, i: int) -> Json:
        step, function = self._steps[i], f"function-{i % self._functions}"
        running = step == 2
        state = {"running": {"startedAt": self._stamp()}} if running else {"waiting": {}}
        ready = {"type": "Ready", "status": str(running), "lastTransitionTime": self._stamp()}
        return {
            "metadata": {
                "name": f"{function}-77-{i}",
                "namespace": f"team-{i % 20}",
                "uid": f"pod-{i}",
                "creationTimestamp": self._stamp(30.0),
                "labels": {"app": function, "pod-template-hash": "77"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": f"{function}-77", "controller": True}],
                "managedFields": [{"manager": "kubelet", "fieldsV1": {f"f:{n}": {} for n in range(60)}}],
            },
            "spec": {
                **({"nodeName": f"node-{i % self._nodes}"} if step else {}),
                "containers": [
                    {
                        "name": "function",
                        "image": "registry/image-1:1",
                        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
                        "env": [{"name": f"NAME_{n}", "value": "value"} for n in range(10)],
                    }
                ],
            },
            "status": {
                "phase": "Running" if running else "Pending",
                "conditions": [ready, {"type": "PodScheduled", "status": str(bool(step))}],
                "containerStatuses": [{"name": "function", "state": state}] if step else [],
            },
        }

    def _policy(self, i: int) -> Json:
        points = [[n, n / (n + 10), 1.0, 1.0] for n in range(1, 80, 8)]
        return {
            "metadata": {"name": f"function-{i}", "namespace": f"team-{i % 20}", "uid": f"policy-{i}"},
            "spec": {"mode": "shadow", "scaleTargetRef": {"kind": "Deployment", "name": f"function-{i}"}},
            "status": {
                "replicas": 100,
                "targetReplicas": 90,
                "lastSample": {"readyReplicas": 99},
                "lastDecision": {"reason": "the knee is at 90", "at": self._stamp()},
                "scaling": {"evidence": points},
                "conditions": [{"type": "Deciding", "status": "True", "reason": "AtKnee", "message": "m"}],
            },
        }
