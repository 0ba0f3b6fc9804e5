"""Run the real metrics-server as a process of a lab, registered as the API `metrics.k8s.io`.

It scrapes the nodes that were added with a `kubelet_port`; `kwok.traffic.kubelet_metrics` answers for them.
TLS is verified on both sides: the API server verifies metrics-server by the CA in the APIService, and
metrics-server verifies the kubelets by a CA whose only certificate has the addresses of all nodes (8 bytes
a node; a certificate for each node would need a thousand keys).
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from kwok.cluster import certificates
from kwok.errors import LabError
from kwok.lab import Lab
from kwok.nodes import kubelet_addresses
from kwok.ports import answers_ready
from kwok.processes import Process
from surgekit.kube.client import ApiError
from surgekit.tls import ensure

__all__ = ["METRICS_SERVER", "kubelet_certificates", "start"]

METRICS_SERVER = "metrics-server"
NAMESPACE = "kube-system"
_APISERVICE = "v1beta1.metrics.k8s.io"
_LEAST_RESOLUTION_S = 10.0  # metrics-server refuses less
_KUBELET_TIMEOUT_S = 5.0  # must be below 0.9 times the resolution


def kubelet_certificates(lab: Lab) -> Path:
    """`ca.crt`, `tls.crt` and `tls.key` for the kubelets of all current nodes.

    Call it again, and restart the listener, after adding nodes. The CA stays.
    """
    addresses = kubelet_addresses(lab.kube)
    if not addresses:
        raise LabError(
            f"lab {lab.name}: no node has a kubelet; add_nodes(..., kubelet_port=...) gives it one"
        )
    directory = lab.directory / "tls" / "kubelets"
    ensure(directory, list(addresses), [], datetime.now(UTC))
    return directory


def start(lab: Lab, resolution_s: float = _LEAST_RESOLUTION_S) -> Process:
    """Scrape every `resolution_s` and serve the API. A pod's first figures take two scrapes."""
    if resolution_s < _LEAST_RESOLUTION_S:
        raise LabError(f"metrics-server: resolution_s {resolution_s:g} is under {_LEAST_RESOLUTION_S:g}")
    _apply(lab, "rbac", _rbac())
    own = lab.directory / "tls" / METRICS_SERVER
    ensure(own, [f"{METRICS_SERVER}.{NAMESPACE}.svc"], [], datetime.now(UTC))
    kubeconfig = lab.account_kubeconfig(NAMESPACE, METRICS_SERVER)
    port = lab.free_port()
    process = lab.start(
        METRICS_SERVER,
        [
            lab.binaries.path(METRICS_SERVER),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={own / 'tls.crt'}",
            f"--tls-private-key-file={own / 'tls.key'}",
            "--kubelet-use-node-status-port",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-certificate-authority={_kubelet_authorities(lab)}",
            f"--kubelet-request-timeout={_KUBELET_TIMEOUT_S:g}s",
            f"--metric-resolution={resolution_s:g}s",
        ],
        ready=lambda: answers_ready(port, "/livez", tls=True),
        port=port,
    )
    # Registered when it answers: the API server retries a dead one only after a while.
    _apply(lab, "api", _registration(port, (own / "ca.crt").read_bytes()))
    lab.wait_for(lambda: _available(lab), f"APIService {_APISERVICE} available")
    return process


def _kubelet_authorities(lab: Lab) -> Path:
    """The CA of the emulated nodes' kubelets, and the cluster's own, which signs those of real nodes."""
    file = lab.directory / "tls" / METRICS_SERVER / "kubelets.crt"
    cluster_ca = certificates(lab.directory) / "ca.crt"
    file.write_bytes((kubelet_certificates(lab) / "ca.crt").read_bytes() + cluster_ca.read_bytes())
    return file


def _apply(lab: Lab, what: str, objects: list[dict[str, Any]]) -> None:
    file = lab.directory / f"{METRICS_SERVER}-{what}.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    lab.apply(file)


def _registration(port: int, ca: bytes) -> list[dict[str, Any]]:
    """An ExternalName Service and an APIService: the API server dials that name at the port in the
    APIService, and expects the name of the Service in the certificate."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": METRICS_SERVER, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    api_service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": _APISERVICE},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": METRICS_SERVER, "namespace": NAMESPACE, "port": port},
            "caBundle": base64.b64encode(ca).decode(),
        },
    }
    return [service, api_service]


def _available(lab: Lab) -> bool:
    try:
        found = lab.kube.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{_APISERVICE}")
    except ApiError:
        return False
    conditions = found.get("status", {}).get("conditions", [])
    return any(c["type"] == "Available" and c["status"] == "True" for c in conditions)


def _rbac() -> list[dict[str, Any]]:
    """Read nodes and pods, and create token and access reviews."""
    rbac, subject = "rbac.authorization.k8s.io", {"kind": "ServiceAccount", "name": METRICS_SERVER}

    def binding(kind: str, name: str, role: str, namespace: str | None = None) -> dict[str, Any]:
        return {
            "apiVersion": f"{rbac}/v1",
            "kind": kind,
            "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
            "roleRef": {"apiGroup": rbac, "kind": kind.removesuffix("Binding"), "name": role},
            "subjects": [subject | {"namespace": NAMESPACE}],
        }

    role = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "system:metrics-server"},
        "rules": [
            {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},  # a real kubelet asks
        ],
    }
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": METRICS_SERVER, "namespace": NAMESPACE},
    }
    reader = "extension-apiserver-authentication-reader"
    return [
        account,
        role,
        binding("ClusterRoleBinding", "system:metrics-server", "system:metrics-server"),
        binding("ClusterRoleBinding", "metrics-server:system:auth-delegator", "system:auth-delegator"),
        binding("RoleBinding", "metrics-server-auth-reader", reader, NAMESPACE),
    ]
