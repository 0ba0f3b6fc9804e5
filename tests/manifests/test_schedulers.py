"""The configurations, read by the real kube-scheduler."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from cryptography import x509

from kwok.lab import Lab
from surgekit.tls import ReloadingServerContext, ensure
from tests.manifests.installed_cluster import (
    MANIFESTS,
    NAMESPACE,
    SERVICE,
    create,
    marks,
    placed,
    pod,
    until,
)

pytestmark = pytest.mark.lab


@dataclass
class Asked:
    """What reached the extender: names of pods, and the client certificates they came with."""

    pods: list[str] = field(default_factory=list)
    serials: set[int] = field(default_factory=set)


@dataclass
class Extender:
    url: str
    tls: Path
    asked: Asked = field(default_factory=Asked)

    def renew(self) -> None:
        for file in ("tls.crt", "kube-scheduler.crt"):
            (self.tls / file).unlink()
        ensure(self.tls, [SERVICE], ["kube-scheduler"], datetime.now(UTC))

    def entry(self, configuration: Path) -> dict[str, Any]:
        """The shipped configuration, with this server's address and files in place of the pod's."""
        content: dict[str, Any] = yaml.safe_load(configuration.read_text())
        (extender,) = content["extenders"]
        extender["urlPrefix"] = self.url
        extender["httpTimeout"] = "30s"  # on busy cores a second may not be enough
        given = {"certFile": "kube-scheduler.crt", "keyFile": "kube-scheduler.key", "caFile": "ca.crt"}
        assert set(extender["tlsConfig"]) - {"serverName"} == set(given)
        files = {key: str(self.tls / file) for key, file in given.items()}
        extender["tlsConfig"] = {"serverName": SERVICE} | extender["tlsConfig"] | files
        return content


@pytest.fixture
def extender(tmp_path: Path) -> Iterator[Extender]:
    """An HTTPS server that notes who asks for what and answers neutrally; a handshake per request."""
    ensure(tmp_path, [SERVICE], ["kube-scheduler"], datetime.now(UTC))
    reloading = ReloadingServerContext(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")
    asked = Asked()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert isinstance(self.connection, ssl.SSLSocket)
            certificate = self.connection.getpeercert()
            assert certificate, "the scheduler showed no certificate"
            arguments = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert arguments.get("Nodes") is None, "nodeCacheCapable: names, not objects"
            asked.serials.add(int(str(certificate["serialNumber"]), 16))
            asked.pods.append(arguments["Pod"]["metadata"]["name"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[]")

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def finish_request(self, request: Any, client_address: Any) -> None:
            """The handshake, in the thread of its connection."""
            with reloading.context.wrap_socket(request, server_side=True) as connection:
                Handler(connection, client_address, self)

    with Server(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield Extender(f"https://127.0.0.1:{server.server_address[1]}", tmp_path, asked)
        server.shutdown()


def test_a_scheduler_without_the_extender_places_marked_pods(namespaces: Lab) -> None:
    assert marks(create(namespaces, "on", pod("without"))) == ["c"]
    until(lambda: placed(namespaces, "on", "without"), "the stock scheduler places it")


def test_the_control_plane_snippet_calls_for_marked_pods_only(namespaces: Lab, extender: Extender) -> None:
    namespaces.stop_scheduler()
    try:
        snippet = extender.entry(MANIFESTS / "control-plane" / "kube-scheduler-config.yaml")
        namespaces.start_scheduler(snippet)
        for namespace, name in (("on", "inside"), ("silent", "outside"), ("watching", "shadowed")):
            create(namespaces, namespace, pod(name))
            until(lambda ns=namespace, n=name: placed(namespaces, ns, n), f"{name} is placed")  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
        assert extender.asked.pods == ["inside", "shadowed"]
        # Renewed on both sides while the scheduler runs: it reads its certificate again by itself.
        extender.renew()
        extender.asked.serials.clear()
        time.sleep(1.5)  # client-go looks at the files at most once a second
        create(namespaces, "on", pod("after-renewal"))
        until(lambda: placed(namespaces, "on", "after-renewal"), "a pod after the renewal is placed")
        assert extender.asked.pods[-1] == "after-renewal"
        assert extender.asked.serials == {_serial(extender.tls / "kube-scheduler.crt")}
    finally:
        namespaces.stop_scheduler()
        namespaces.start_scheduler()


def _serial(certificate: Path) -> int:
    return x509.load_pem_x509_certificate(certificate.read_bytes()).serial_number


def test_the_second_scheduler_runs_beside_the_first_under_its_own_account(
    namespaces: Lab, extender: Extender
) -> None:
    configuration = extender.entry(MANIFESTS / "overlays" / "second-scheduler" / "kube-scheduler-config.yaml")
    account = namespaces.account_kubeconfig(NAMESPACE, "surgekit-scheduler")
    namespaces.start_scheduler(configuration, "second-scheduler", account)
    try:
        create(namespaces, "silent", pod("by-second", schedulerName="surgekit"))
        create(namespaces, "silent", pod("by-first"))
        for name in ("by-second", "by-first"):
            until(lambda n=name: placed(namespaces, "silent", n), f"{name} is placed")  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
        assert extender.asked.pods == ["by-second"]
        lease = namespaces.kube.get(
            f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/surgekit-scheduler"
        )
        assert lease["spec"]["holderIdentity"]
    finally:
        namespaces.stop("second-scheduler")


def test_a_scheduler_that_trusts_another_ca_does_without(
    namespaces: Lab, extender: Extender, tmp_path: Path
) -> None:
    """The extender cannot be impersonated: with its name but not its CA nobody is listened to."""
    ensure(tmp_path / "other", [SERVICE], ["kube-scheduler"], datetime.now(UTC))
    configuration = extender.entry(MANIFESTS / "overlays" / "second-scheduler" / "kube-scheduler-config.yaml")
    configuration["extenders"][0]["tlsConfig"]["caFile"] = str(tmp_path / "other" / "ca.crt")
    account = namespaces.account_kubeconfig(NAMESPACE, "surgekit-scheduler")
    namespaces.start_scheduler(configuration, "second-scheduler", account)
    try:
        create(namespaces, "silent", pod("not-fooled", schedulerName="surgekit"))
        until(lambda: placed(namespaces, "silent", "not-fooled"), "it is placed all the same")
        assert extender.asked.pods == []
    finally:
        namespaces.stop("second-scheduler")
