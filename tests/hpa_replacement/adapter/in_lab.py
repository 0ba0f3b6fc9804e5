"""The adapter as a process of a lab, under its own service account, registered as in a real cluster."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from hpa_replacement.adapter.discovery import CUSTOM, EXTERNAL, VERSIONS
from hpa_replacement.adapter.registration import Service, register
from kwok.lab import Lab
from kwok.parts import MANIFESTS, NAMESPACE, apply_manifests
from kwok.ports import answers_ready
from surgekit.kube.client import ApiError
from surgekit.tls import ensure
from tests.hpa_replacement.adapter.builders import policy

ADAPTER = "adapter"
POLICIES = "/apis/surgekit.dev/v1alpha1"
_RUN = """
import sys
from pathlib import Path
from hpa_replacement.adapter.server import run
from hpa_replacement.adapter.settings import Settings
from surgekit.process.settings import load
run(load(Settings, Path(sys.argv[1])), Path(sys.argv[2]))
"""


def install(lab: Lab) -> None:
    install_beside_kneescale(lab)
    lab.wait_for(lambda: _served(lab, f"{POLICIES}/kneepolicies"), "the CRD")


def install_beside_kneescale(lab: Lab) -> None:
    """Where the namespace and the whole CRD are there."""
    apply_manifests(lab, MANIFESTS / "adapter")
    # The API server dials that name at the APIService's port; the certificate must have the Service's name.
    lab.kube.create(
        f"/api/v1/namespaces/{NAMESPACE}/services",
        {
            "metadata": {"name": "surgekit-adapter"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
    )


def certificates(lab: Lab) -> Path:
    directory = lab.directory / "tls" / ADAPTER
    ensure(directory, [f"surgekit-adapter.{NAMESPACE}.svc", "localhost"], [], datetime.now(UTC))
    return directory


def start(lab: Lab, port: int, **settings: Any) -> None:
    file = lab.directory / "adapter.settings.yaml"
    health_port = lab.free_port()
    binds = {"bind": f"127.0.0.1:{port}", "health_bind": f"127.0.0.1:{health_port}"}
    file.write_text(yaml.safe_dump({**binds, "tls_directory": str(certificates(lab)), **settings}))
    account = lab.account_kubeconfig(NAMESPACE, "surgekit-adapter")
    lab.start(
        ADAPTER,
        [sys.executable, "-c", _RUN, file, account],
        ready=lambda: answers_ready(health_port),
        port=port,
    )


def register_both(lab: Lab, port: int) -> None:
    ca_pem = (certificates(lab) / "ca.crt").read_bytes()
    register(lab.kube, [EXTERNAL, CUSTOM], Service(port=port), ca_pem)
    for group in (EXTERNAL, CUSTOM):
        lab.wait_for(lambda group=group: available(lab, group), f"API {group}")  # type: ignore[misc]


def available(lab: Lab, group: str) -> bool:
    found = lab.kube.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{VERSIONS[group]}.{group}")
    conditions = (found.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Available" and c["status"] == "True" for c in conditions)


def set_policy(lab: Lab, namespace: str, name: str, replicas: int, **spec: Any) -> None:
    """As the controller would: the spec is made once, the target is written to the status."""
    path = f"{POLICIES}/namespaces/{namespace}/kneepolicies"
    wanted = policy(name, namespace, replicas, **spec)
    if not _served(lab, f"{path}/{name}"):
        whole = {"metadata": {"name": name}, "spec": {"maxReplicas": 100} | wanted["spec"]}
        lab.kube.create(path, wanted | whole)
    lab.kube.patch(f"{path}/{name}/status", {"status": wanted["status"]})


def _served(lab: Lab, path: str) -> bool:
    try:
        lab.kube.get(path)
    except ApiError as error:
        if error.code not in (404, 429):  # 429: the storage of a new CRD is being made
            raise
        return False
    return True
