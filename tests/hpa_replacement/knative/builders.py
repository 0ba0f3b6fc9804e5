"""Objects as Knative makes them, and a cluster that is only a table."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hpa_replacement.knative.config_autoscaler import AutoscalerConfig
from hpa_replacement.knative.pod_autoscaler import CLASS
from hpa_replacement.knative.presence import Demand, Observed, RevisionView
from hpa_replacement.knative.reconciliation import Create, Patch, Plan, Step, plan
from surgekit.decision import Decision
from surgekit.kube.conditions import stamp

Json = dict[str, Any]
GROUP = "autoscaling.knative.dev"
NAMESPACE, NAME = "fns", "shop-00001"
DEFAULT_HIGH = 100
NO_DEMAND, KNATIVE_S_DEFAULTS = Demand(0, 0.0, 0.0), AutoscalerConfig()


def pod_autoscaler(
    annotations: dict[str, str] | None = None, klass: str = CLASS, name: str = NAME, **spec: Any
) -> Json:
    named = {f"{GROUP}/{k}": v for k, v in (annotations or {}).items()}
    return {
        "apiVersion": "autoscaling.internal.knative.dev/v1alpha1",
        "kind": "PodAutoscaler",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": "pa-uid",
            "resourceVersion": "1",
            "generation": 1,
            "labels": {"serving.knative.dev/revision": name},
            "annotations": {f"{GROUP}/class": klass, **named},
        },
        "spec": {
            "protocolType": "http1",
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"{name}-deployment"},
            **spec,
        },
    }


@dataclass
class Table:
    """Carries steps out as the API server would: merge patches, generations."""

    pa: Json
    sks: Json | None = None
    policy: Json | None = None
    target: Observed | str = field(default_factory=lambda: Observed(1, 1))
    demand: Demand = NO_DEMAND
    config: AutoscalerConfig = KNATIVE_S_DEFAULTS
    now_s: float = 1000.0

    def decide(self, now_s: float | None = None) -> Decision[Plan]:
        view = RevisionView(
            self.pa, self.sks, self.policy, self.target, self.demand, self.config,
            self.now_s if now_s is None else now_s, {"pods": 1.5},
        )  # fmt: skip
        return plan(view, DEFAULT_HIGH)

    def plan(self, now_s: float | None = None) -> tuple[Step, ...]:
        return self.decide(now_s).action.steps

    def apply(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if isinstance(step, Create):
                body = copy.deepcopy(step.body)
                body["metadata"] |= {"uid": f"{body['kind']}-uid", "namespace": NAMESPACE, "generation": 1}
                setattr(self, "policy" if body["kind"] == "KneePolicy" else "sks", body)
            elif isinstance(step, Patch):
                self._patch(step)
            else:
                assert isinstance(self.target, Observed)
                self.target = Observed(step.replicas, self.target.ready)

    def _patch(self, step: Patch) -> None:
        plural = step.path.split("/namespaces/")[1].split("/")[1]
        name = {"podautoscalers": "pa", "kneepolicies": "policy", "serverlessservices": "sks"}[plural]
        obj = getattr(self, name)
        body = dict(step.body)
        status = step.path.endswith("/status")
        guard = "resourceVersion" if status else "uid"  # the API server ignores the uid in a status
        assert body.pop("metadata") == {guard: obj["metadata"][guard]}
        assert set(body) == {"status" if status else "spec"}
        obj["metadata"]["generation"] += "spec" in body
        obj["metadata"]["resourceVersion"] = str(int(obj["metadata"].get("resourceVersion", 0)) + 1)
        _merge(obj, body)

    def settle(self) -> None:
        """Passes until nothing is left to write."""
        for _ in range(4):
            steps = self.plan()
            if not steps:
                return
            self.apply(steps)
        raise AssertionError(f"still writes {self.plan()}")

    def play_sks(self, ready: str = "True") -> None:
        """What Knative's controller does with a ServerlessService."""
        assert self.sks
        since = condition(self.sks, "ActivatorEndpointsPopulated")
        self.sks["status"] = sks_status(self.sks, ready, stamp(self.now_s))
        now = condition(self.sks, "ActivatorEndpointsPopulated")
        if since.get("status") == now["status"]:
            now["lastTransitionTime"] = since["lastTransitionTime"]

    def play_policy(
        self, wanted: int | None, reason: str = "NoData", idle_since_s: float | None = None
    ) -> None:
        """What the rounds write."""
        assert self.policy
        self.policy["status"] = {
            "observedGeneration": self.policy["metadata"]["generation"],
            "conditions": [{"type": "Deciding", "status": "True", "reason": reason}],
            "targetReplicas": wanted,
        }
        if idle_since_s is not None:
            self.policy["status"]["idleSince"] = stamp(idle_since_s)

    def condition(self, kind: str) -> Json:
        return condition(self.pa, kind)


def sks_status(sks: Json, ready: str = "True", now: str = "2026-01-01T00:00:00Z") -> Json:
    name = sks["metadata"]["name"]
    return {
        "observedGeneration": sks["metadata"]["generation"],
        "serviceName": name,
        "privateServiceName": f"{name}-private",
        "conditions": [
            {"type": "Ready", "status": ready},
            {
                "type": "ActivatorEndpointsPopulated",
                "status": str(sks["spec"]["mode"] == "Proxy"),
                "lastTransitionTime": now,
            },
        ],
    }


def condition(obj: Json, kind: str) -> Json:
    found: list[Json] = (obj.get("status") or {}).get("conditions") or []
    return next((c for c in found if c["type"] == kind), {})


def _merge(into: Json, patch: Json) -> None:
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        elif value is None:
            into.pop(key, None)
        else:
            into[key] = copy.deepcopy(value)
