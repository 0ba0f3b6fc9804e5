"""Traffic for a lab that is played with: `surgekit lab up --with traffic`.

Functions behind the gateway, clients that call them without pause, and a Prometheus that sees both.
"""

from __future__ import annotations

import json
from pathlib import Path

from kwok import prometheus
from kwok.errors import TrafficError
from kwok.lab import Lab
from kwok.traffic.functions import FUNCTIONS
from kwok.traffic.haproxy import find_haproxy
from kwok.traffic.live import ask, start_traffic
from kwok.traffic.network import why_no_namespace

__all__ = ["CLIENTS", "NAMES", "NAMESPACE", "SCRAPE_S", "TIME_FACTOR", "check", "set_clients", "start"]

NAMESPACE = "functions"
NAMES = ("float-operation", "image-processing")
CLIENTS = 20  # of each: the paper's stationary load, IV-D
SCRAPE_S = 1.0
# Functions, gateway and HPA run so many times as fast as nominal: a search ends while one watches.
TIME_FACTOR = 4.0


def check() -> None:
    """Raise what would keep traffic from flowing on this machine, before anything is started."""
    if reason := why_no_namespace():
        raise TrafficError(reason)
    find_haproxy()


def start(lab: Lab) -> str:
    """One replica of each function, called by clients from now on; Prometheus's URL."""
    functions = {name: FUNCTIONS[name] for name in NAMES}
    traffic = start_traffic(lab, functions, namespaces=[NAMESPACE])
    scraped = {
        "gateway": [f"127.0.0.1:{traffic.gateway_metrics_port}"],
        "functions": [f"127.0.0.1:{traffic.function_metrics_port}"],
    }
    port = prometheus.start(lab, scraped, SCRAPE_S).port
    for name in functions:
        traffic.clients(traffic.deploy(name, NAMESPACE, 1), CLIENTS)
    _record(lab).write_text(json.dumps({"load_port": traffic.load_port}))
    return f"http://127.0.0.1:{port}"


def set_clients(lab: Lab, function: str, count: int) -> None:
    """From now on so many clients call the function, each waiting for its answer before it asks again."""
    try:
        load_port = json.loads(_record(lab).read_text())["load_port"]
    except FileNotFoundError:
        raise TrafficError(
            f"lab {lab.name!r} has no traffic: `surgekit lab up --with traffic` starts one that has"
        ) from None
    if function not in NAMES:
        raise TrafficError(f"function: {function!r} is not one of {', '.join(NAMES)}")
    ask(load_port, "/clients", {"target": f"{function}.{NAMESPACE}", "clients": count})


def _record(lab: Lab) -> Path:
    return lab.directory / "traffic.json"
