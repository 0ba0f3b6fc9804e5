"""Real nodes in a lab: kubelet, containerd and kube-proxy beside KWOK's emulated nodes.

Each is a machine of its own (`machine`): its processes, mounts and network are namespaces that end with it.
"""

from __future__ import annotations

from pathlib import Path

from kwok.real_node.nodes import LABEL, TOLERATION, start
from kwok.real_node.requirements import why_no_real_node

__all__ = ["EXAMPLE", "LABEL", "TOLERATION", "start", "why_no_real_node"]

EXAMPLE = Path(__file__).parent / "example.yaml"
