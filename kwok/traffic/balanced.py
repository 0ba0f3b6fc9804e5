"""Live traffic through surgekit's load balancer. (`kwok.traffic.live` uses the lab's own gateway instead.)

load generator -> HAProxy, driven by `surgekit serve load-balancer` -> the pods' server
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from kwok import parts
from kwok.errors import TrafficError
from kwok.lab import Lab
from kwok.network_namespace import EMULATED_PODS, namespace_path
from kwok.traffic import haproxy
from kwok.traffic.function import Function
from kwok.traffic.live import Traffic, ask, socket_path, start_functions, start_load

__all__ = ["dial_pods_in", "pods", "start_balanced_traffic"]


def start_balanced_traffic(
    lab: Lab, functions: Mapping[str, Function], settings: Mapping[str, Any]
) -> Traffic:
    """Start the pods' server, HAProxy, the balancer (with `settings`) and the load generator.

    The caller creates pods and Services. Both need the label `surgekit.dev/combofunc`; pods also need
    `kwok.traffic.function_process.FUNCTION`."""
    binary = haproxy.find_haproxy()
    function_port = start_functions(lab, functions)
    gateway_port = lab.free_port()
    directory = socket_path(lab, "lb")
    parts.install_load_balancer(lab)
    given = {
        "directory": str(directory), "listen": f"127.0.0.1:{gateway_port}", "functions": 8, "slots": 32,
    }  # fmt: skip
    enter = partial(dial_pods_in, namespace_path(lab.directory, EMULATED_PODS).name)
    balancer = parts.start_load_balancer(lab, binary, given | dict(settings), enter)
    assert balancer.port is not None  # noqa: S101  # it was given one
    load_port = start_load(lab, gateway_port)
    return Traffic(lab, functions, gateway_port, balancer.port, function_port, load_port)


def dial_pods_in(network_namespace: str, configuration: str) -> str:
    """Add the lab's network namespace, where pods answer, to each pod's slot of an HAProxy configuration.

    Its other servers are sockets of this machine, and emergency instances on its network. Clients stay on the
    host's loopback, so HAProxy itself runs outside of that namespace."""
    slot = r"(?m)^ +server s\d+ .+$"
    edited, slots = re.subn(slot, rf"\g<0> namespace {network_namespace}", configuration)
    if not slots:
        raise TrafficError("the load balancer's HAProxy configuration has no slot to edit")
    return edited


def pods(traffic: Traffic) -> dict[str, dict[str, int]]:
    """Each pod's own counts: concurrency, in_flight, most_at_once, answered."""
    found: dict[str, dict[str, int]] = ask(traffic.function_metrics_port, "/pods")
    return found
