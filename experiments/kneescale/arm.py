"""One policy over all functions, live, with its own namespace and nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from experiments.kneescale.controller import SEARCH_ANNOTATION
from experiments.kneescale.openfaas_rule import OpenFaasRule
from experiments.kneescale.plan import CONSTANT, HPAS, SAMPLING_S, Load
from experiments.kneescale.searches import SEARCHES
from experiments.kneescale.track import Track
from kwok.hpa_loops import default_behavior
from kwok.lab import Lab
from kwok.traffic.functions import CLUSTER, FUNCTIONS
from kwok.traffic.live import Seen, Traffic
from surgekit.kube.client import ApiError

__all__ = ["Arm", "Stage", "namespace"]

_POLICIES = "/apis/surgekit.dev/v1alpha1/namespaces/{}/kneepolicies"


class Stage(Protocol):
    """What an arm needs from the bench."""

    @property
    def lab(self) -> Lab: ...

    @property
    def traffic(self) -> Traffic: ...

    @property
    def time_factor(self) -> float: ...

    def selector(self, slot: int, function: str) -> dict[str, str]: ...


def namespace(arm: str) -> str:
    return arm.replace("_", "-")


class Arm:
    """One policy over all functions, in its own namespace."""

    def __init__(self, bench: Stage, name: str, load: Load, slot: int) -> None:
        self._bench, self.name, self._load, self._slot = bench, name, load, slot
        self._namespace = namespace(name)
        self._kube = bench.lab.kube
        self.tracks = {function: Track() for function in FUNCTIONS}
        self._stopped: set[str] = set()
        self._clients: dict[str, int] = {}
        self._rules: dict[str, OpenFaasRule] = {}
        self._looked: dict[str, Seen] = {}
        self._points: dict[str, int] = defaultdict(int)

    def begin(self) -> None:
        for name, function in FUNCTIONS.items():
            most = CLUSTER.capacity(function.cpu_cores)
            least = self._load.constant(most) if self.name == CONSTANT else 1
            if self.name == "openfaas":
                least = OpenFaasRule(most).least
            self._bench.traffic.deploy(name, self._namespace, least, self._bench.selector(self._slot, name))
            if self.name == "openfaas":
                self._rules[name] = OpenFaasRule(most, for_s=10.0 / self._bench.time_factor)
        # All at once, when all functions are there.
        for name, function in FUNCTIONS.items():
            most = CLUSTER.capacity(function.cpu_cores)
            if self.name in SEARCHES:
                self._kube.create(_POLICIES.format(self._namespace), self._policy(name, most))
            elif self.name in HPAS:
                self._kube.create(self._hpas, self._hpa(name, most))

    @property
    def _hpas(self) -> str:
        return f"/apis/autoscaling/v2/namespaces/{self._namespace}/horizontalpodautoscalers"

    def _target(self, function: str) -> dict[str, str]:
        return {"apiVersion": "apps/v1", "kind": "Deployment", "name": function}

    def _policy(self, function: str, most: int) -> dict[str, Any]:
        def compressed(seconds: float) -> str:
            return f"{round(seconds * 1000 / self._bench.time_factor)}ms"

        return {
            "apiVersion": "surgekit.dev/v1alpha1",
            "kind": "KneePolicy",
            "metadata": {"name": function, "annotations": {SEARCH_ANNOTATION: self.name}},
            "spec": {
                "scaleTargetRef": self._target(function),
                "mode": "enforce",
                "maxReplicas": most,
                "samplingInterval": compressed(SAMPLING_S),
                "budget": {
                    "replicaIntervals": self._load.budget,
                    "window": compressed(self._load.duration_s),
                    "atEnd": "stop",
                },
                "metrics": {"preset": "openfaas"},
                # Rates use this machine's clock, so they are higher by the time factor.
                "thresholds": {
                    "throughputPerSecond": 2 * self._bench.time_factor,
                    "errorsPerSecond": 1 * self._bench.time_factor,
                },
            },
        }

    def _hpa(self, function: str, most: int) -> dict[str, Any]:
        target = {"type": "Utilization", "averageUtilization": int(self.name.removeprefix("hpa"))}
        return {
            "metadata": {"name": function},
            "spec": {
                "scaleTargetRef": self._target(function),
                "minReplicas": 1,
                "maxReplicas": most,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
                "behavior": default_behavior(self._bench.time_factor),
            },
        }

    def clients(self, function: str, count: int) -> None:
        if self._clients.get(function) != count:
            self._bench.traffic.clients(f"{function}.{self._namespace}", count)
            self._clients[function] = count

    def look(self, now_s: float) -> None:
        """Apply OpenFaaS's rule, as often as its Prometheus evaluates it."""
        if not self._rules:
            return
        seen = self._bench.traffic.sample()
        replicas = self._bench.traffic.replicas()
        for function, rule in self._rules.items():
            target = f"{function}.{self._namespace}"
            now, before = seen[target], self._looked.get(function)
            self._looked[function] = now
            if before is None or now.at_s <= before.at_s or function in self._stopped:
                continue
            # The rule is in nominal invocations a second.
            rate = (now.answered - before.answered) / (now.at_s - before.at_s) / self._bench.time_factor
            wanted = rule.replicas(now_s, rate, replicas[target])
            if wanted != replicas[target]:
                self._bench.traffic.scale(function, self._namespace, wanted)

    def note(self, before: Mapping[str, Seen], seen: Mapping[str, Seen]) -> None:
        """Record a finished interval. Figures are nominal."""
        deployments, _ = self._kube.list_all(f"/apis/apps/v1/namespaces/{self._namespace}/deployments")
        replicas = {d["metadata"]["name"]: d["spec"]["replicas"] for d in deployments}
        if self.name in SEARCHES:
            self._note_searches()
        for function, track in self.tracks.items():
            target = f"{function}.{self._namespace}"
            now, then = seen[target], before[target]
            length_s = (now.at_s - then.at_s) * self._bench.time_factor
            answered, latency_sum_s = now.answered - then.answered, now.latency_sum_s - then.latency_sum_s
            errors = sum(now.errors.values()) - sum(then.errors.values())
            latency_s = latency_sum_s / answered * self._bench.time_factor if answered else None
            clients = self._clients.get(function, 0)
            track.note(replicas[function], clients, answered / length_s, errors / length_s, latency_s)
            if sum(track.replicas) >= self._load.budget and function not in self._stopped:
                self._stop(function)

    def _stop(self, function: str) -> None:
        """IV-D: over budget, function instances are killed."""
        self._stopped.add(function)
        for path in (_POLICIES.format(self._namespace), self._hpas):
            with suppress(ApiError):
                self._kube.delete(f"{path}/{function}")
        self._bench.traffic.scale(function, self._namespace, 0)

    def _note_searches(self) -> None:
        policies, _ = self._kube.list_all(_POLICIES.format(self._namespace))
        for policy in policies:
            function = policy["metadata"]["name"]
            search = (policy.get("status") or {}).get("search")
            if search:
                self._points[function] = len(search["points"])
            elif self._points[function]:
                # The status does not show the last sample of a search separately.
                self.tracks[function].samples.append(self._points.pop(function) + 1)
                known = (policy.get("status") or {}).get("knownKnees") or ()
                self.tracks[function].knees += [k["replicas"] for k in known if not k["inferred"]][-1:]

    def end(self) -> None:
        for function in FUNCTIONS:
            self.clients(function, 0)
        for path in (_POLICIES.format(self._namespace), self._hpas):
            for obj in self._kube.list_all(path)[0]:
                self._kube.delete(f"{path}/{obj['metadata']['name']}")
        for function in FUNCTIONS:
            self._kube.delete(f"/apis/apps/v1/namespaces/{self._namespace}/deployments/{function}")
            self._kube.delete(f"/api/v1/namespaces/{self._namespace}/services/{function}")
        pods = f"/api/v1/namespaces/{self._namespace}/pods"
        self._bench.lab.wait_for(
            lambda: not self._kube.get(pods, limit=1)["items"], f"no pods in {self._namespace}", 60
        )

    def note_latencies(self, began_s: float) -> None:
        records, seen = self._bench.traffic.records(), self._bench.traffic.sample()
        for function, track in self.tracks.items():
            number = seen[f"{function}.{self._namespace}"].number
            mine = records[(records["target"] == number) & (records["sent_s"] >= began_s)]
            first = mine[np.argsort(mine["sent_s"])][:200]
            factor = self._bench.time_factor
            track.first_latencies_s = [round(float(v) * factor, 4) for v in first["latency_s"]]
            good = mine[mine["status"] == 200]["latency_s"] * factor
            if len(good):
                quantiles = np.quantile(good, (0.05, 0.25, 0.5, 0.75, 0.95, 0.99))
                names = ("p5", "p25", "p50", "p75", "p95", "p99")
                track.latency_quantiles_s = {
                    n: round(float(q), 4) for n, q in zip(names, quantiles, strict=True)
                }
