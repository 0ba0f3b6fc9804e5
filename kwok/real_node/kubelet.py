"""Run a kubelet on a real node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from kwok.cgroups import make_cgroups
from kwok.network import addresses
from kwok.nodes import is_ready
from kwok.real_node import identity
from kwok.real_node.containerd import SOCKET
from kwok.real_node.machine import Machine
from surgekit.kube.client import ApiError, Kube

__all__ = ["start"]


def start(machine: Machine, labels: dict[str, str], taints: list[dict[str, str]]) -> None:
    """Start the kubelet, which registers the node, and wait until the node is Ready."""
    lab, name = machine.lab, machine.name
    credentials = identity.kubeconfig(lab, f"system:node:{name}", ["system:nodes"])
    argv: list[str | Path] = [
        lab.binaries.path("kubelet"),
        f"--config={machine.write('kubelet.yaml', yaml.safe_dump(_configuration(machine, taints)))}",
        f"--kubeconfig={machine.write('kubelet.kubeconfig', credentials)}",
        f"--hostname-override={name}",
        f"--node-ip={machine.address}",
        f"--node-labels={','.join(f'{key}={value}' for key, value in labels.items())}",
    ]
    machine.start_process("kubelet", argv, ready=lambda: _is_ready(lab.kube, name))


def _is_ready(kube: Kube, node: str) -> bool:
    try:
        return is_ready(kube.get(f"/api/v1/nodes/{node}"))
    except ApiError as error:
        if error.code != 404:
            raise
        return False


def _configuration(machine: Machine, taints: list[dict[str, str]]) -> dict[str, Any]:
    serving = identity.sign(machine.lab, machine.name, hosts=[machine.name, machine.address])
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "registerWithTaints": taints,
        # Authentication and authorisation as kubeadm sets them up.
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(machine.write("ca.crt", identity.ca(machine.lab).read_bytes()))},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(machine.write("kubelet.crt", serving.certificate)),
        "tlsPrivateKeyFile": str(machine.write("kubelet.key", serving.key)),
        "clusterDomain": "cluster.local",
        "clusterDNS": [str(addresses.DNS_SERVICE)],
        "resolvConf": "",  # the host's name servers are not reachable from here
        # Groups of its own, so that several kubelets share a machine; the driver that needs no systemd.
        "cgroupRoot": make_cgroups(machine.lab.directory, machine.name),
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",  # the default lies in the host's /usr
        # Images come from no registry, so none may be thrown away, however full the host's disk is.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi"},
    }
