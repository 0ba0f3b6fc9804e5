"""Objects as the API server has them, and a small world: an API server, pods, Prometheus."""

from __future__ import annotations

import copy
import itertools
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from hpa_replacement.kneepolicy import read
from hpa_replacement.metrics import KneeScaleMetrics
from hpa_replacement.observe.sources import ClusterSource
from hpa_replacement.policy_reconciler import ClusterAccess, PolicyReconciler, ReadPolicy
from hpa_replacement.settings import Settings
from surgekit.kube.client import ApiError, Kube
from surgekit.kube.events import Events
from surgekit.prometheus.client import Labels, NoAnswer
from tests.events_at_once import EventsAtOnce, unreadable
from tests.fake_api_server.patches import merge

Json = dict[str, Any]
APPS = "/apis/apps/v1"
OWN_QUERIES = {what: f'{what}{{function="$function"}}' for what in ("throughput", "latency", "errors", "cpu")}
_numbers = itertools.count()


def kneepolicy(name: str = "web", **spec: Any) -> Json:
    """In enforce mode, with queries that the World's Prometheus answers."""
    return {
        "metadata": {
            "name": name, "namespace": "shop", "uid": f"uid-{next(_numbers)}", "generation": 1,
            "resourceVersion": str(next(_numbers)),
            "creationTimestamp": f"2026-01-01T00:00:{next(_numbers) % 60:02d}Z",
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "mode": "enforce",
            "maxReplicas": 40,
            "metrics": {"queries": dict(OWN_QUERIES)},
        }
        | spec,
    }  # fmt: skip


def pod(name: str, *, ready: bool = True, node: str = "node-0", app: str = "web", **spec: Any) -> Json:
    resources = {"requests": {"cpu": "200m", "memory": "64Mi"}}
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"pod-{name}", "labels": {"app": app}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": resources}]} | spec,
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def node(name: str = "node-0", cpu: str = "8", memory: str = "16Gi", pods: str = "110", **spec: Any) -> Json:
    return {
        "metadata": {"name": name, "uid": f"node-{name}", "labels": {"pool": "blue"}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": pods},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def hpa(name: str, target: str, api_version: str = "apps/v1") -> Json:
    reference = {"apiVersion": api_version, "kind": "Deployment", "name": target}
    metadata = {"name": name, "namespace": "shop", "uid": f"hpa-{name}"}
    return {"metadata": metadata, "spec": {"scaleTargetRef": reference}}


def policy_events(kube: object) -> Events:
    return EventsAtOnce(kube).about("surgekit.dev/v1alpha1", "KneePolicy")


class World:
    """Deployments whose pods are Ready at once, 20 clients in a closed loop on each, KneePolicies on them.

    Throughput is mu r N / (N + r - 1): one request at a time in a pod, pods chosen at random.
    """

    def __init__(self, **replicas: int) -> None:
        self.replicas = replicas or {"web": 1}
        self.policies: dict[str, Json] = {}
        self.patches: list[tuple[str, Json]] = []
        self.events: list[Json] = []
        self.refusals: dict[str, ApiError] = {}  # by what a path ends with
        self.clients, self.errors_per_s = 20, 0.0
        self.down = False  # Prometheus
        self.queries: list[str] = []
        self.leads = True
        self.before_patch: Callable[[str], object] = lambda path: None
        self.source = ClusterSource(cast(Kube, self), unreadable())
        self.metrics = KneeScaleMetrics()
        self.now_s = (time.time() // 30 + 100) * 30 + 1.0
        self._feed("nodes", [node()])
        self._feed_pods()

    def reconciler(self, read_policy: ReadPolicy = read) -> PolicyReconciler:
        """A leader's, at the beginning of its term."""
        settings = Settings(scrape_interval_s=1.0)
        cluster = ClusterAccess(cast(Kube, self), self.source, self, policy_events(self))
        return PolicyReconciler(settings, cluster, self.metrics, lambda: self.leads, read_policy)

    def go(self, reconciler: PolicyReconciler, intervals: int = 1) -> None:
        for _ in range(intervals):
            self.now_s += 30.0
            reconciler.reconcile_due(self.now_s)
            reconciler._lanes.wait()

    def add(self, *policies: Json) -> None:
        self.policies |= {policy["metadata"]["name"]: policy for policy in policies}
        self._feed("kneepolicies", list(self.policies.values()))

    def remove(self, name: str) -> None:
        del self.policies[name]
        self.add()

    def edit(self, name: str, **spec: Any) -> None:
        self.policies[name]["spec"] |= spec
        self.policies[name]["metadata"]["generation"] += 1
        self.policies[name]["metadata"]["resourceVersion"] = str(next(_numbers))
        self.add()

    def set_hpas(self, *hpas: Json) -> None:
        self._feed("horizontalpodautoscalers", list(hpas))

    def scale(self, name: str, replicas: int) -> None:
        self.replicas[name] = replicas
        self._feed_pods()

    def status(self, name: str = "web") -> Json:
        return cast(Json, self.policies[name].get("status") or {})

    def condition(self, name: str = "web") -> tuple[str, str, str]:
        (condition,) = self.status(name)["conditions"]
        return condition["status"], condition["reason"], condition["message"]

    def scaled(self) -> list[int]:
        return [body["spec"]["replicas"] for path, body in self.patches if path.endswith("/scale")]

    def _feed(self, what: str, objects: list[Json]) -> None:
        consumer = self.source._watches[what]._consumer
        consumer.replace(copy.deepcopy(objects), time.monotonic())

    def _feed_pods(self) -> None:
        self._feed(
            "pods", [pod(f"{app}-{i}", app=app) for app, count in self.replicas.items() for i in range(count)]
        )

    # As Kube.

    def get(self, path: str, **_: Any) -> Json:
        self._refuse(path)
        if path == APPS:
            names = ("deployments", "deployments/scale", "deployments/status", "daemonsets")
            kinds = ("Deployment", "Scale", "Deployment", "DaemonSet")
            return {"resources": [{"name": n, "kind": k} for n, k in zip(names, kinds, strict=True)]}
        name = path.removesuffix("/scale").rpartition("/")[2]
        if "/kneepolicies/" in path:
            return copy.deepcopy(self.policies[name])
        if not path.startswith(f"{APPS}/namespaces/shop/deployments/") or name not in self.replicas:
            raise ApiError(404, "NotFound", f"{path} not found")
        return {"spec": {"replicas": self.replicas[name]}, "status": {"selector": f"app={name}"}}

    def create(self, path: str, body: Json) -> Json:
        assert path == "/apis/events.k8s.io/v1/namespaces/shop/events"
        self._refuse(path)
        self.events.append(body)
        return body

    def patch(self, path: str, body: Json) -> Json:
        self.before_patch(path)
        self._refuse(path)
        self.patches.append((path, copy.deepcopy(body)))
        what = path.rpartition("/")[2]
        name = path.split("/")[-2]
        if what == "scale":
            self.scale(name, body["spec"]["replicas"])
            return {}
        policy = self.policies[name]
        if policy["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        policy["metadata"]["resourceVersion"] = str(next(_numbers))
        policy["status"] = merge(policy.get("status"), body["status"])
        self.add()
        return policy

    def _refuse(self, path: str) -> None:
        for ending, error in self.refusals.items():
            if path.endswith(ending):
                raise error

    # As Prometheus.

    def values(self, query: str, at_s: float) -> Mapping[Labels, float]:
        self.queries.append(query)
        if self.down:
            raise NoAnswer("Prometheus at http://nowhere does not answer: timed out")
        asked = re.fullmatch(r'(\w+)\{function="(.*)",namespace="shop"\}', query)
        assert asked, query
        what, name = asked.groups()
        replicas, clients = self.replicas[name], self.clients
        throughput = replicas * clients / (clients + replicas - 1) if clients else 0.0
        values = {
            "throughput": throughput,
            "errors": self.errors_per_s,
            "latency": clients / throughput if throughput else float("nan"),
            "cpu": 0.1 * replicas,
        }
        return {frozenset({("function", name)}): values[what]}


def exported(world: World, name: str, **labels: str) -> float | None:
    return world.metrics.registry.get_sample_value(f"surgekit_kneescale_{name}", labels)


# The curve's knee for 20 clients and 40 replicas (or less), give or take.
KNEE = range(10, 28)


def at_the_knee(world: World, name: str = "web") -> bool:
    return world.replicas[name] in KNEE and world.condition(name)[1] == "AtKnee"
