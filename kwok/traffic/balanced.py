"""Live traffic through surgekit's load balancer, where `kwok.traffic.live` has the lab's own gateway.

load generator -> HAProxy, told by `surgekit serve load-balancer` -> the pods' server
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwok import parts
from kwok.lab import Lab
from kwok.network_namespace import namespace_path
from kwok.traffic import haproxy
from kwok.traffic.function import Function
from kwok.traffic.live import Traffic, ask, socket_path, start_functions, start_load

__all__ = ["pods", "start_balanced_traffic"]


def start_balanced_traffic(
    lab: Lab, functions: Mapping[str, Function], settings: Mapping[str, Any]
) -> Traffic:
    """Start what serves and sends. Pods and Services are the caller's: a function's have the label
    `surgekit.dev/combofunc`, its pods also `kwok.traffic.function_process.FUNCTION`. `settings` are the
    balancer's."""
    binary = haproxy.find_haproxy()
    function_port = start_functions(lab, functions)
    gateway_port = lab.free_port()
    directory = socket_path(lab, "lb")
    parts.install_load_balancer(lab)
    given = {
        "directory": str(directory), "listen": f"127.0.0.1:{gateway_port}", "functions": 8, "slots": 32,
        "network_namespace": namespace_path(lab.directory).name,
    }  # fmt: skip
    balancer = parts.start_load_balancer(lab, binary, given | dict(settings or {}))
    assert balancer.port is not None  # noqa: S101  # it was given one
    load_port = start_load(lab, gateway_port)
    return Traffic(lab, functions, gateway_port, balancer.port, function_port, load_port)


def pods(traffic: Traffic) -> dict[str, dict[str, int]]:
    """What each pod did, as it saw it: concurrency, in_flight, most_at_once, answered."""
    found: dict[str, dict[str, int]] = ask(traffic.function_metrics_port, "/pods")
    return found
