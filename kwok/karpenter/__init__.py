"""Run the real Karpenter, with its KWOK provider, in a lab."""

from __future__ import annotations

from kwok.karpenter.hook import HOOK, install_hook, start_hook, wait_until_gating
from kwok.karpenter.instance_types import ZONE, architecture, instance_type, instance_types
from kwok.karpenter.process import KARPENTER, NODE_CLASS, add_node_pool, install, start

__all__ = [
    "HOOK",
    "KARPENTER",
    "NODE_CLASS",
    "ZONE",
    "add_node_pool",
    "architecture",
    "install",
    "install_hook",
    "instance_type",
    "instance_types",
    "start",
    "start_hook",
    "wait_until_gating",
]
