"""Traffic for an interactive lab: `surgekit lab up --with traffic`.

Functions behind the gateway, clients that call them without pause, and a Prometheus that scrapes both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from kwok import prometheus
from kwok.errors import TrafficError
from kwok.lab import Lab
from kwok.network.namespaces import why_no_namespace
from kwok.traffic.functions import FUNCTIONS
from kwok.traffic.haproxy import find_haproxy
from kwok.traffic.live import ask, start_traffic

__all__ = [
    "CLIENTS",
    "NAMES",
    "NAMESPACE",
    "SCRAPE_S",
    "TIME_FACTOR",
    "check",
    "remember",
    "set_clients",
    "start",
]

NAMESPACE = "functions"
NAMES = ("float-operation", "image-processing")
CLIENTS = 20  # for each function: the paper's stationary load, IV-D
SCRAPE_S = 1.0
# Functions, gateway and HPA run this many times as fast as nominal, so that a search ends within minutes.
TIME_FACTOR = 4.0


def check() -> None:
    """Raise TrafficError if traffic cannot run on this machine, before anything is started."""
    if reason := why_no_namespace():
        raise TrafficError(reason)
    find_haproxy()


def start(lab: Lab) -> str:
    """Deploy one replica of each function and start its clients; return Prometheus's URL."""
    functions = {name: FUNCTIONS[name] for name in NAMES}
    traffic = start_traffic(lab, functions, namespaces=[NAMESPACE])
    scraped = {
        "gateway": [f"127.0.0.1:{traffic.gateway_metrics_port}"],
        "functions": [f"127.0.0.1:{traffic.function_metrics_port}"],
    }
    port = prometheus.start(lab, scraped, SCRAPE_S).port
    for name in functions:
        traffic.clients(traffic.deploy(name, NAMESPACE, 1), CLIENTS)
    remember(lab, traffic.load_port, {name: f"{name}.{NAMESPACE}" for name in NAMES})
    return f"http://127.0.0.1:{port}"


def set_clients(lab: Lab, function: str, count: int) -> None:
    """Set how many clients call the function; each waits for its answer before it calls again."""
    try:
        known = json.loads(_record(lab).read_text())
    except FileNotFoundError:
        raise TrafficError(
            f"lab {lab.name!r} has no traffic: `surgekit lab up --with traffic` starts one that has"
        ) from None
    if function not in known["targets"]:
        raise TrafficError(f"function: {function!r} is not one of {', '.join(known['targets'])}")
    ask(known["load_port"], "/clients", {"target": known["targets"][function], "clients": count})


def remember(lab: Lab, load_port: int, targets: Mapping[str, str]) -> None:
    """For `set_clients`, which another process may call; `targets` by function."""
    _record(lab).write_text(json.dumps({"load_port": load_port, "targets": dict(targets)}))


def _record(lab: Lab) -> Path:
    return lab.directory / "traffic.json"
