"""Run kube-proxy: on each real node, and beside the control plane, which calls Services, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from kwok.lab import Lab
from kwok.network import addresses
from kwok.network.namespaces import inside
from kwok.ports import answers_ready
from kwok.real_node import identity
from kwok.real_node.machine import Machine
from kwok.real_node.requirements import SEARCH_PATH

__all__ = ["start_beside_control_plane", "start_on"]

NAME = "kube-proxy"
_HEALTH_PORT, _METRICS_PORT = 10256, 10249  # its own defaults


def start_on(machine: Machine) -> None:
    """Start kube-proxy on a node; it waits for the Node object."""
    credentials = machine.write(
        "kube-proxy.kubeconfig", identity.kubeconfig(machine.lab, "system:kube-proxy")
    )
    content = _configuration(credentials, machine.name, _HEALTH_PORT, _METRICS_PORT)
    configuration = machine.write("kube-proxy.yaml", yaml.safe_dump(content))
    machine.start_process(
        NAME,
        [machine.lab.binaries.path(NAME), f"--config={configuration}"],
        ready=lambda: inside(machine.network, lambda: answers_ready(_HEALTH_PORT, "/healthz")),
    )


def start_beside_control_plane(lab: Lab, node: str) -> None:
    """Start kube-proxy where the control plane runs, unless it runs there. That is no node, so it goes by the
    name of `node`."""
    if lab.processes.find(NAME):
        return
    port = lab.free_port()
    credentials = lab.directory / "kube-proxy.kubeconfig"
    credentials.touch(mode=0o600)
    credentials.write_text(identity.kubeconfig(lab, "system:kube-proxy"))
    file = lab.directory / "kube-proxy.yaml"
    file.write_text(yaml.safe_dump(_configuration(credentials, node, port, lab.free_port())))
    lab.start(
        NAME, [lab.binaries.path(NAME), f"--config={file}"],
        env={"PATH": SEARCH_PATH}, ready=lambda: answers_ready(port, "/healthz"), port=port,
    )  # fmt: skip


def _configuration(credentials: Path, node: str, health_port: int, metrics_port: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": node,
        "clientConnection": {"kubeconfig": str(credentials)},
        "clusterCIDR": str(addresses.REAL_PODS),
        "healthzBindAddress": f"127.0.0.1:{health_port}",
        "metricsBindAddress": f"127.0.0.1:{metrics_port}",
        "oomScoreAdj": 0,
        # Zero leaves the kernel's limits as they are: they belong to the host.
        "conntrack": {
            "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
        },
        "iptables": {"localhostNodePorts": False, "minSyncPeriod": "100ms"},
    }  # fmt: skip
