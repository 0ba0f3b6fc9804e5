"""The keeper of certificates under its own account, and the extender as shipped, which follows them."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import sys
import time
from base64 import b64decode
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from kwok.lab import Lab
from kwok.ports import answers_ready
from surgekit.cli.certificates import app
from surgekit.kube.client import ApiError, Kube
from tests.manifests.installed_cluster import MANIFESTS, NAMESPACE, SERVICE, until

pytestmark = pytest.mark.lab


def keep_certificates(lab: Lab) -> list[str]:
    """What the Job runs, under the Job's account; what it did."""
    kubeconfig = lab.account_kubeconfig(NAMESPACE, "surgekit-certificates")
    result = CliRunner().invoke(app, ["secrets", "--kubeconfig", str(kubeconfig), "--json", "-"])
    assert result.exit_code == 0, result.output
    return [change["action"] for change in json.loads(result.stdout)]


def lose_the_ca(lab: Lab) -> None:
    lab.kube.delete(f"/api/v1/namespaces/{NAMESPACE}/secrets/surgekit-ca")


def test_the_keeper_of_certificates_runs_under_its_own_account(installed: Lab) -> None:
    assert keep_certificates(installed) == ["created"] * 11
    assert keep_certificates(installed) == ["kept"] * 11
    servers = (
        "surgekit-extender-tls",
        "surgekit-expander-tls",
        "surgekit-adapter-tls",
        "surgekit-limit-allocator-tls",
        "surgekit-burst-controller-tls",
    )
    clients = (
        "surgekit-scheduler-client-tls",
        "surgekit-burst-controller-client-tls",
        "surgekit-burst-placement-tls",
    )
    for name in (*servers, *clients):
        secret = installed.kube.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
        assert (secret["type"], set(secret["data"])) == (
            "kubernetes.io/tls",
            {"ca.crt", "tls.crt", "tls.key"},
        )
    for name in ("surgekit-limit-agent-tls", "surgekit-pulselet-tls"):
        agents = installed.kube.get(f"/api/v1/namespaces/surgekit-agents/secrets/{name}")
        assert set(agents["data"]) == {"ca.crt", "tls.crt", "tls.key"}
    # As the README has a control-plane node read it.
    template = '{{index .data "tls.crt" | base64decode}}'
    read = (
        "-n",
        NAMESPACE,
        "get",
        "secret",
        "surgekit-scheduler-client-tls",
        "-o",
        f"go-template={template}",
    )
    assert installed.kubectl(*read).startswith("-----BEGIN CERTIFICATE-----")
    # A CA removed on purpose (README, "Certificates") takes everything it signed with it.
    lose_the_ca(installed)
    assert keep_certificates(installed) == ["created"] + ["renewed"] * 10


def test_the_keeper_of_certificates_cannot_make_itself_another_account(installed: Lab) -> None:
    kube = Kube.connect(installed.account_kubeconfig(NAMESPACE, "surgekit-certificates"))
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    annotations = {"kubernetes.io/service-account.name": "surgekit-scheduler"}
    for name, kind in (("another", "Opaque"), ("surgekit-ca", "kubernetes.io/service-account-token")):
        secret = {
            "apiVersion": "v1", "kind": "Secret", "type": kind,
            "metadata": {"name": name, "annotations": annotations},
        }  # fmt: skip

        def refused(secret: dict[str, Any] = secret) -> bool:
            try:
                kube.create(path, secret, dryRun="All")
            except ApiError as error:
                return "keeps its own Secrets only" in error.message
            return False

        until(refused, f"{name} ({kind}) is refused")  # a policy takes moments to come into force


def mount(lab: Lab, secret: str, directory: Path) -> Path:
    """What kubelet does with a Secret: a new directory for each version, and one symlink swapped."""
    data = lab.kube.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{secret}")["data"]
    version = directory / f"..{time.monotonic_ns()}"
    version.mkdir(parents=True)
    for name, content in data.items():
        (version / name).write_bytes(b64decode(content))
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")
    (directory / "..data_tmp").symlink_to(version.name)
    os.replace(directory / "..data_tmp", directory / "..data")
    return directory


def connect(port: int, trusted: Path, client: Path | None) -> http.client.HTTPConnection:
    """A connection over TLS, to the name the Service has."""
    context = ssl.create_default_context(cafile=trusted / "ca.crt")
    if client:
        context.load_cert_chain(client / "tls.crt", client / "tls.key")
    connection = http.client.HTTPConnection("127.0.0.1", port)
    raw = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.sock = context.wrap_socket(raw, server_hostname=SERVICE)
    return connection


def get(connection: http.client.HTTPConnection, path: str) -> int:
    connection.request("GET", path)
    with connection.getresponse() as answer:
        answer.read()
        return answer.status


def refused_body(connection: http.client.HTTPConnection) -> int:
    """/prioritize, which keeps its connection open, asked with a body it refuses."""
    connection.request("POST", "/prioritize", b"{}")
    with connection.getresponse() as answer:
        answer.read()
        return answer.status


def test_the_extender_as_shipped_follows_its_certificates(installed: Lab, tmp_path: Path) -> None:
    """The Deployment's arguments, its account's rights, Secrets as kubelet mounts and updates them."""
    keep_certificates(installed)
    server = mount(installed, "surgekit-extender-tls", tmp_path / "server")
    scheduler = mount(installed, "surgekit-scheduler-client-tls", tmp_path / "scheduler")
    deployment = yaml.safe_load((MANIFESTS / "base" / "extender" / "deployment.yaml").read_text())
    arguments: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    port, health_port = installed.free_port(), installed.free_port()
    there = {
        "/etc/surgekit/settings": str(MANIFESTS / "base" / "extender"),
        "/etc/surgekit/tls": str(server),
        "0.0.0.0:8443": f"127.0.0.1:{port}",
        "0.0.0.0:8080": f"127.0.0.1:{health_port}",
    }
    for in_pod, here in there.items():
        arguments = [argument.replace(in_pod, here) for argument in arguments]
    account = installed.account_kubeconfig(NAMESPACE, "surgekit-extender")
    surgekit = Path(sys.executable).with_name("surgekit")
    installed.start(
        "extender-as-shipped",
        [surgekit, *arguments, f"--kubeconfig={account}"],
        ready=lambda: answers_ready(health_port),
        port=port,
    )
    try:
        with (
            closing(connect(port, server, None)) as stranger,
            closing(connect(port, server, scheduler)) as before,
        ):
            assert (answers_ready(health_port, "/metrics"), get(stranger, "/explain?pod=a/b")) == (True, 403)
            assert refused_body(before) == 400
            lose_the_ca(installed)
            keep_certificates(installed)
            mount(installed, "surgekit-extender-tls", server)
            with pytest.raises(OSError), closing(connect(port, server, scheduler)) as leaked:  # noqa: PT011, PT012  # refused in the handshake (TLS 1.2) or at the first read (1.3)
                if get(leaked, "/explain?pod=a/b") == 404:
                    pytest.fail("a certificate of the CA that was removed still opens a connection")
            mount(installed, "surgekit-scheduler-client-tls", scheduler)
            with closing(connect(port, server, scheduler)) as after_rotation:
                assert get(after_rotation, "/explain?pod=a/b") == 404, "let in: no decision about such a pod"
            assert refused_body(before) == 400, "an open connection goes on"
    finally:
        installed.stop("extender-as-shipped")
