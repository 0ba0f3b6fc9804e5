"""Certificates kept as Secrets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from surgekit.kube.client import ApiError
from surgekit.tls import CertificateError, ensure_secrets
from tests.surgekit.tls.builders import NOW, WANTED


class FakeSecrets:
    """The part of the API server that ensure_secrets uses, with its optimistic locking."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.before_write: Callable[[], None] = lambda: None
        self.writes = 0

    def get(self, path: str) -> dict[str, Any]:
        name = path.rsplit("/", 1)[1]
        if name not in self.stored:
            raise ApiError(404, "NotFound", name)
        return dict(self.stored[name])

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.before_write()
        if body["metadata"]["name"] in self.stored:
            raise ApiError(409, "AlreadyExists", body["metadata"]["name"])
        return self._store(body)

    def replace(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.before_write()
        if self.stored[body["metadata"]["name"]]["metadata"] != body["metadata"]:
            raise ApiError(409, "Conflict", body["metadata"]["name"])
        return self._store(body)

    def _store(self, body: dict[str, Any]) -> dict[str, Any]:
        self.writes += 1
        metadata = body["metadata"] | {"resourceVersion": str(self.writes)}
        self.stored[body["metadata"]["name"]] = body | {"metadata": metadata}
        return body


class TestSecrets:
    def ensure(self, kube: FakeSecrets, now: datetime = NOW) -> dict[str, str]:
        changes = ensure_secrets(kube, "ns", "surgekit-ca", WANTED, now)  # type: ignore[arg-type]  # the fake
        return {c.name: c.action.value for c in changes}

    def test_secrets_have_the_shape_the_deployments_mount(self) -> None:
        kube = FakeSecrets()
        self.ensure(kube)
        assert {n: (s["type"], set(s["data"])) for n, s in kube.stored.items()} == {
            "surgekit-ca": ("Opaque", {"ca.crt", "ca.key"}),
            "server": ("kubernetes.io/tls", {"tls.crt", "tls.key", "ca.crt"}),
            "client": ("kubernetes.io/tls", {"tls.crt", "tls.key", "ca.crt"}),
        }

    def test_a_second_run_writes_nothing(self) -> None:
        kube = FakeSecrets()
        self.ensure(kube)
        assert (self.ensure(kube), kube.writes) == ({"ca": "kept", "server": "kept", "client": "kept"}, 3)

    def test_a_published_ca_reaches_every_secret_though_no_leaf_changes(self) -> None:
        kube = FakeSecrets()
        self.ensure(kube)
        later = NOW + timedelta(days=3650 * 2 / 3 + 1)
        self.ensure(kube, later)
        assert {s["data"]["ca.crt"] for s in kube.stored.values()} == {
            kube.stored["surgekit-ca"]["data"]["ca.crt"]
        }

    def test_of_two_runs_at_once_one_takes_the_others_ca(self) -> None:
        kube = FakeSecrets()

        def rival() -> None:
            kube.before_write = lambda: None
            self.ensure(kube)

        kube.before_write = rival
        assert self.ensure(kube) == {"ca": "kept", "server": "kept", "client": "kept"}
        assert kube.writes == 3

    def test_a_secret_of_cert_manager_is_left_alone(self) -> None:
        kube = FakeSecrets()
        annotations = {"cert-manager.io/certificate-name": "extender"}
        kube.stored["server"] = {"metadata": {"name": "server", "annotations": annotations}, "data": {}}
        with pytest.raises(CertificateError, match="cert-manager"):
            self.ensure(kube)
        assert kube.writes == 0

    def test_a_refusal_is_passed_on(self) -> None:
        kube = FakeSecrets()

        def refuse() -> None:
            raise ApiError(403, "Forbidden", "no")

        kube.before_write = refuse
        with pytest.raises(ApiError, match="Forbidden"):
            self.ensure(kube)
