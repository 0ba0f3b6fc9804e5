"""Certificates kept as Secrets."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from surgekit.kube.client import ApiError
from surgekit.tls import CertificateError, Client, ensure_secrets
from tests.fake_api_server import Call, FakeApiServer, Json
from tests.surgekit.tls.builders import NOW, WANTED


def stored(kube: FakeApiServer) -> dict[str, Json]:
    return {secret["metadata"]["name"]: secret for secret in kube.objects("secrets")}


class TestSecrets:
    def ensure(self, kube: FakeApiServer, now: datetime = NOW) -> dict[str, str]:
        changes = ensure_secrets(kube, "ns", "surgekit-ca", WANTED, now)
        return {c.name: c.action.value for c in changes}

    def test_secrets_have_the_shape_the_deployments_mount(self) -> None:
        kube = FakeApiServer()
        self.ensure(kube)
        assert {n: (s["type"], set(s["data"])) for n, s in stored(kube).items()} == {
            "surgekit-ca": ("Opaque", {"ca.crt", "ca.key"}),
            "server": ("kubernetes.io/tls", {"tls.crt", "tls.key", "ca.crt"}),
            "client": ("kubernetes.io/tls", {"tls.crt", "tls.key", "ca.crt"}),
        }

    def test_a_second_run_writes_nothing(self) -> None:
        kube = FakeApiServer()
        self.ensure(kube)
        assert (self.ensure(kube), len(kube.writes)) == (
            {"ca": "kept", "server": "kept", "client": "kept"},
            3,
        )

    def test_a_published_ca_reaches_every_secret_though_no_leaf_changes(self) -> None:
        kube = FakeApiServer()
        self.ensure(kube)
        later = NOW + timedelta(days=3650 * 2 / 3 + 1)
        self.ensure(kube, later)
        assert {s["data"]["ca.crt"] for s in stored(kube).values()} == {
            stored(kube)["surgekit-ca"]["data"]["ca.crt"]
        }

    def test_of_two_runs_at_once_one_takes_the_others_ca(self) -> None:
        kube = FakeApiServer()

        def rival(_: Call) -> None:
            kube.before_write = lambda call: None
            self.ensure(kube)

        kube.before_write = rival
        assert self.ensure(kube) == {"ca": "kept", "server": "kept", "client": "kept"}
        assert len(stored(kube)) == 3
        assert len(kube.writes) == 4, "three of the rival's, and the one that came too late"

    def test_a_secret_of_cert_manager_is_left_alone(self) -> None:
        annotations = {"cert-manager.io/certificate-name": "extender"}
        metadata = {"name": "server", "namespace": "ns", "annotations": annotations}
        kube = FakeApiServer({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        with pytest.raises(CertificateError, match="cert-manager"):
            self.ensure(kube)
        assert kube.writes == []

    def test_a_leaf_elsewhere_is_kept_where_we_may_and_left_out_where_not(self) -> None:
        agent = Client("agent", "agent", namespace="agents")

        class Refusing(FakeApiServer):
            def get(self, path: str, **query: str | int | bool) -> Json:
                if "/namespaces/agents/" in path:
                    raise ApiError(403, "Forbidden", path)
                return super().get(path, **query)

        for kube, expected in ((FakeApiServer(), {"ns", "agents"}), (Refusing(), {"ns"})):
            changes = ensure_secrets(kube, "ns", "surgekit-ca", [*WANTED, agent], NOW)
            assert ("agent" in {c.name for c in changes}) is ("agents" in expected)
            assert {s["metadata"]["namespace"] for s in kube.objects("secrets")} == expected

    def test_a_refusal_is_passed_on(self) -> None:
        kube = FakeApiServer()

        kube.fail(ApiError(403, "Forbidden", "no"))
        with pytest.raises(ApiError, match="Forbidden"):
            self.ensure(kube)
