"""Policies as the API server has them, and an API server that answers by heart."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from hpa_replacement.adapter.authentication import CONFIG_MAP
from hpa_replacement.adapter.model import PolicyFacts
from hpa_replacement.adapter.values import Limits, Picture
from surgekit.kube.client import ApiError, KubeUnreachable
from surgekit.process.modes import Mode

Json = dict[str, Any]
GOOD_TOKEN = "good"  # noqa: S105  # of nobody
NOW_S = 1_800_000_000.0
LIMITS = Limits(max_age_intervals=5.0, max_input_age_s=60.0)


def facts(name: str = "checkout", namespace: str = "shop", **changed: Any) -> PolicyFacts:
    """A policy whose target, 21, was decided ten seconds ago and is the HPA's."""
    known: Json = {
        "mode": Mode.ENFORCE,
        "paused": False,
        "via_metrics": True,
        "sampling_interval_s": 30.0,
        "target_replicas": 21,
        "decided_at_s": NOW_S - 10,
    }
    return PolicyFacts(namespace=namespace, name=name, **known | changed)


def picture(*policies: PolicyFacts, input_age_s: float = 1.0) -> Picture:
    table: dict[str, dict[str, PolicyFacts]] = {}
    for policy in policies:
        table.setdefault(policy.namespace, {})[policy.name] = policy
    return Picture(table, input_age_s, NOW_S, LIMITS)


def policy(name: str = "checkout", namespace: str = "shop", replicas: int | None = 21, **spec: Any) -> Json:
    """The object, decided just now."""
    decided = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "KneePolicy",
        "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", "generation": 1},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "mode": "enforce",
            "via": "metrics",
            "samplingInterval": "30s",
        }
        | spec,
        "status": {} if replicas is None else {"targetReplicas": replicas, "decidedAt": decided},
    }


def authentication_data(ca_pem: str, allowed_names: tuple[str, ...] = ("front-proxy-client",)) -> Json:
    """As kubeadm's kube-apiserver writes it."""
    return {
        "client-ca-file": "-----BEGIN CERTIFICATE-----\nanother\n-----END CERTIFICATE-----\n",
        "requestheader-allowed-names": orjson.dumps(allowed_names).decode(),
        "requestheader-client-ca-file": ca_pem,
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }


class FakeKube:
    """Knows the ConfigMap, one token and who may; counts what it is asked."""

    def __init__(self, ca_file: Path) -> None:
        self.data = authentication_data(ca_file.read_text())
        self.token_owner: Json | None = {"username": "prometheus", "groups": ["system:authenticated"]}
        self.may: set[str] = {"hpa", "prometheus"}
        self.reviews: list[Json] = []
        self.failing: Exception | None = None

    def get(self, path: str, **_: Any) -> Json:
        assert path.endswith(f"/kube-system/configmaps/{CONFIG_MAP}")
        return {"metadata": {"name": CONFIG_MAP}, "data": self.data}

    def create(self, path: str, body: Json, **_: Any) -> Json:
        if self.failing:
            raise self.failing
        self.reviews.append(body)
        spec = body["spec"]
        if path.endswith("/tokenreviews"):
            known = spec["token"] == GOOD_TOKEN and self.token_owner is not None
            return {"status": {"authenticated": True, "user": self.token_owner} if known else {}}
        assert path.endswith("/subjectaccessreviews")
        return {"status": {"allowed": spec["user"] in self.may, "reason": "" if spec["user"] else "nobody"}}


def unreachable() -> KubeUnreachable:
    return KubeUnreachable("connection refused")


def not_allowed_to_ask() -> ApiError:
    return ApiError(403, "Forbidden", "surgekit-adapter cannot create subjectaccessreviews")


def heard_of_just_now(watch: Any) -> None:
    watch._last_contact_s = time.monotonic()
