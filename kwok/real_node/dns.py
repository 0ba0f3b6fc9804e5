"""Run CoreDNS beside the control plane, as the Service `kube-dns`.

It answers for the cluster's names only: there is nobody else to ask from inside a lab.
"""

from __future__ import annotations

from typing import Any

import yaml

from kwok.lab import Lab
from kwok.network import addresses
from kwok.ports import answers_ready
from kwok.real_node import identity

__all__ = ["start"]

_NAME, _USER = "coredns", "system:coredns"
_NAMESPACE, _SERVICE = "kube-system", "kube-dns"


def start(lab: Lab) -> None:
    """Start it, unless it runs."""
    if lab.processes.find(_NAME):
        return
    objects = lab.directory / "coredns-objects.yaml"
    objects.write_text(yaml.safe_dump_all([*_rights(), *_service()]))
    lab.apply(objects)
    credentials = lab.directory / "coredns.kubeconfig"
    credentials.touch(mode=0o600)
    credentials.write_text(identity.kubeconfig(lab, _USER))
    port = lab.free_port()
    file = lab.directory / "Corefile"
    file.write_text(f"""\
.:53 {{
    bind {addresses.CONTROL_PLANE}
    errors
    ready 127.0.0.1:{port}
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {credentials} lab
        pods insecure
        ttl 5
    }}
}}
""")
    lab.start(
        _NAME,
        [lab.binaries.path(_NAME), "-conf", file],
        ready=lambda: answers_ready(port, "/ready"),
        port=port,
    )


def _rights() -> list[dict[str, Any]]:
    """What CoreDNS's own manifest asks for."""
    rbac = "rbac.authorization.k8s.io"
    watch = ["list", "watch"]
    role = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": _USER},
        "rules": [
            {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": watch},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": watch},
        ],
    }
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": _USER},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": _USER},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": _USER}],
    }
    return [role, binding]


def _service() -> list[dict[str, Any]]:
    """A Service without a selector: CoreDNS is a process, not a pod."""
    ports = [
        {"name": f"dns-{protocol.lower()}", "port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")
    ]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _SERVICE, "namespace": _NAMESPACE},
        "spec": {"clusterIP": str(addresses.DNS_SERVICE), "ports": ports},
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": _SERVICE, "namespace": _NAMESPACE, "labels": {"kubernetes.io/service-name": _SERVICE},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [str(addresses.CONTROL_PLANE)], "conditions": {"ready": True}}],
        "ports": ports,
    }  # fmt: skip
    return [service, endpoints]
