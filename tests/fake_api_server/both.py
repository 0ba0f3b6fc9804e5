"""The fake API server and the real one, for tests that run on both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from surgekit.kube.client import ApiError, Kube
from tests.fake_api_server import FakeApiServer, Json

__all__ = ["GATES", "SURGEKIT", "Api", "refusal"]

SURGEKIT = "/apis/surgekit.dev/v1alpha1"
GATES = [{"name": "example.dev/one"}, {"name": "example.dev/two"}]


@dataclass(frozen=True)
class Api:
    kube: Kube
    namespace: str

    def path(self, plural: str, name: str = "", sub: str = "", group: str = "/api/v1") -> str:
        parts = [group, "namespaces", self.namespace, plural, name, sub]
        return "/".join(part for part in parts if part)

    def config_map(self, name: str, **metadata: Any) -> Json:
        body = {"metadata": {"name": name} | metadata, "data": {"a": "1", "b": "2"}}
        return self.kube.create(self.path("configmaps"), body)

    def pod(self, name: str, **spec: Any) -> Json:
        container = {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}
        body = {"metadata": {"name": name}, "spec": {"containers": [container]} | spec}
        return self.kube.create(self.path("pods"), body)

    def deployment(self, name: str, replicas: int) -> Json:
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "a"}]}}
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template,
            "paused": True,
        }
        body = {"metadata": {"name": name}, "spec": spec}
        return self.kube.create(self.path("deployments", group="/apis/apps/v1"), body)

    def combofunc(self, name: str) -> Json:
        template = {"spec": {"containers": [{"name": "app", "image": "app"}]}}
        sizes = [{"name": "small", "concurrency": 1, "cpu": "1", "memory": "1Gi"}]
        spec = {"targetConcurrency": 3, "template": template, "sizes": sizes}
        body = {"apiVersion": "surgekit.dev/v1alpha1", "kind": "ComboFunc", "metadata": {"name": name}}
        return self.kube.create(self.path("combofuncs", group=SURGEKIT), body | {"spec": spec})

    def events(self, path: str, version: str, **query: Any) -> list[tuple[str, str]]:
        """What a short watch says: types and names."""
        told = self.watch(path, version, **query)
        return [(event["type"], event["object"]["metadata"]["name"]) for event in told]

    def watch(self, path: str, version: str, real_timeout_s: int = 1, **query: Any) -> list[Json]:
        timeout_s: Any = 0.1 if isinstance(self.kube, FakeApiServer) else real_timeout_s
        batches = self.kube.stream(
            path, watch=True, resourceVersion=version, timeoutSeconds=timeout_s, **query
        )
        return [orjson.loads(line) for lines in batches for line in lines]


def refusal(act: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(ApiError) as raised:
        act()
    return raised.value.code, raised.value.reason
