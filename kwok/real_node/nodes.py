"""Join real nodes to a lab."""

from __future__ import annotations

from collections.abc import Iterable

from kwok import images
from kwok.binaries import COREDNS, REAL_NODE
from kwok.errors import LabError
from kwok.lab import Lab
from kwok.network_namespace import has_network
from kwok.nodes import REAL_NODE as LABEL
from kwok.real_node import containerd, dns, kubelet, proxy
from kwok.real_node.machine import Machine
from kwok.real_node.requirements import why_no_real_node

__all__ = ["FUNCTION", "LABEL", "TOLERATION", "start"]

TOLERATION = {"key": LABEL, "operator": "Exists"}  # of pods that may land on real nodes
FUNCTION = "function-server"


def start(lab: Lab, count: int = 1, image_names: Iterable[str] = (FUNCTION,)) -> list[str]:
    """Join `count` real nodes, with these images, and wait until they are Ready; their names.

    The first call also starts DNS, and kube-proxy for the control plane.
    """
    if reason := why_no_real_node():
        raise LabError(f"lab {lab.name}: no real node: {reason}")
    if not has_network(lab.directory):
        raise LabError(f"lab {lab.name}: real nodes need `Lab.up(..., own_network=True)`")
    for group in (REAL_NODE, COREDNS):  # first, because a build may take minutes
        lab.binaries.directory(group)
    archives = [images.build(name) for name in image_names]
    first = sum(LABEL in node["metadata"]["labels"] for node in lab.kube.list_all("/api/v1/nodes")[0])
    machines = [Machine.start(lab, first + number) for number in range(count)]
    for machine in machines:
        containerd.start(machine)
        for archive in archives:
            containerd.import_image(machine, archive)
        kubelet.start(machine, {LABEL: "true"}, [{"key": LABEL, "value": "true", "effect": "NoSchedule"}])
        proxy.start_on(machine)
    if first == 0:
        dns.start(lab)
        proxy.start_beside_control_plane(lab, machines[0].name)
    return [machine.name for machine in machines]
