"""surgekit's own parts as processes of a lab, each under its own service account, TLS as shipped.

What the manifests would install is installed from the manifests; only what would run in pods (KWOK's
pods run nothing) runs here as processes instead.
"""

from __future__ import annotations

import http.client
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from kwok.lab import Lab
from surgekit.certificates import ensure

__all__ = ["ExtenderPart", "install", "start_extender", "start_probe"]

MANIFESTS = Path(__file__).parent.parent / "manifests"
NAMESPACE = "surgekit-system"
SCHEDULER_CLIENT, LAB_CLIENT = "kube-scheduler", "surgekit-lab"
_IN_PODS = {"Deployment", "Job", "CronJob", "PodDisruptionBudget", "Service", "NetworkPolicy"}


def install(lab: Lab) -> None:
    """CRDs, RBAC and the opt-in policy, as the manifests have them."""
    rendered = [lab.kubectl("kustomize", MANIFESTS / "base" / part) for part in (".", "opt-in")]
    documents = [d for text in rendered for d in yaml.safe_load_all(text)]
    kept = [d for d in documents if d["kind"] not in _IN_PODS]
    kept.sort(key=lambda d: d["kind"] not in ("Namespace", "CustomResourceDefinition"))
    file = lab.directory / "installed.yaml"
    file.write_text(yaml.safe_dump_all(kept))
    lab.apply(file)


@dataclass(frozen=True)
class ExtenderPart:
    """A running extender: where it listens, and how to speak to it."""

    name: str
    port: int
    certificates: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def scheduler_entry(self, weight: int, only_opted_in: bool = True) -> dict[str, Any]:
        """The `extenders` entry of a KubeSchedulerConfiguration, as manifests/control-plane has it."""
        entry = {
            "urlPrefix": self.url,
            "prioritizeVerb": "prioritize",
            "weight": weight,
            "enableHTTPS": True,
            "tlsConfig": {
                "caFile": str(self.certificates / "ca.crt"),
                "certFile": str(self.certificates / f"{SCHEDULER_CLIENT}.crt"),
                "keyFile": str(self.certificates / f"{SCHEDULER_CLIENT}.key"),
            },
            "nodeCacheCapable": True,
            "ignorable": True,
            "httpTimeout": "1s",
        }
        if only_opted_in:
            entry["managedResources"] = [{"name": "surgekit.dev/placement", "ignoredByScheduler": True}]
        return entry

    def request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        context = ssl.create_default_context(cafile=str(self.certificates / "ca.crt"))
        client = self.certificates / LAB_CLIENT
        context.load_cert_chain(client.with_suffix(".crt"), client.with_suffix(".key"))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=context)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def ready(self) -> bool:
        try:
            return self.request("GET", "/readyz")[0] == 200
        except OSError:
            return False


def start_extender(
    lab: Lab, name: str = "extender", settings: Mapping[str, Any] | None = None
) -> ExtenderPart:
    certificates = lab.directory / "tls" / "extender"
    ensure(certificates, ["127.0.0.1", "localhost"], [SCHEDULER_CLIENT, LAB_CLIENT], datetime.now(UTC))
    file = lab.directory / f"{name}.settings.yaml"
    file.write_text(yaml.safe_dump(dict(settings or {})))
    part = ExtenderPart(name, lab.free_port(), certificates)
    lab.start(
        name,
        [
            sys.executable, "-m", "surgekit", "serve", "extender",
            "--settings", file,
            "--kubeconfig", lab.account_kubeconfig(NAMESPACE, "surgekit-extender"),
            "--bind", f"127.0.0.1:{part.port}",
            "--tls-directory", certificates,
        ],
        ready=part.ready,
        port=part.port,
    )  # fmt: skip
    return part


def start_probe(lab: Lab, name: str = "probe", settings: Mapping[str, Any] | None = None) -> None:
    port = lab.free_port()
    file = lab.directory / f"{name}.settings.yaml"
    file.write_text(yaml.safe_dump({"bind": f"127.0.0.1:{port}"} | dict(settings or {})))

    def ready() -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False

    lab.start(
        name,
        [
            sys.executable, "-m", "surgekit", "serve", "probe",
            "--settings", file,
            "--kubeconfig", lab.account_kubeconfig(NAMESPACE, "surgekit-probe"),
        ],
        ready=ready,
        port=port,
    )  # fmt: skip
