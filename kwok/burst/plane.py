"""PulseNet in a lab: `surgekit lab up --with burst`.

    load generator -> HAProxy with balancer and placement -> the pods' server, which answers for KWOK's pods
                                                          -> real containers of one node agent
    controller: one for all of it, on the lab's API server

HAProxy and the node agent run on the host's network: HAProxy reaches instances over the agent's bridge.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from kwok import parts
from kwok.burst.node import CONTROLLER, PLACEMENT, SERVER_NAME, why_no_burst_node
from kwok.cgroups import trees
from kwok.errors import LabError
from kwok.lab import Lab
from kwok.network.namespaces import why_no_namespace
from kwok.network_namespace import EMULATED_PODS, namespace_path
from kwok.processes import Process
from kwok.traffic import haproxy, lab_traffic
from kwok.traffic.balanced import dial_pods_in
from kwok.traffic.function import Function
from kwok.traffic.live import Traffic, socket_path, start_functions, start_load
from surgekit.tls import ensure

__all__ = ["EXAMPLE", "Plane", "check", "start", "start_before_knative", "url", "why_no_plane"]

EXAMPLE = parts.MANIFESTS / "burst-plane" / "examples" / "lab.yaml"
NODE, BALANCER = "burst-node", "balancer"
_SHARE = {"cpu_millis": 4000, "memory_mib": 1024}  # of the node: on a small machine 10 % is no instance
_PODS_ANSWER = Function("hello", 0.0, 0.1, 1, 0.0, cpu_cores=0.5, memory_bytes=64 << 20)


@dataclass(frozen=True)
class Plane:
    """What runs, and where to ask."""

    lab: Lab
    traffic: Traffic
    directory: Path  # that HAProxy, balancer and placement share
    node: str
    agent: str  # HOST:PORT
    certificates: Path

    @property
    def agent_pid(self) -> int:
        """Of the agent that runs now."""
        return int(json.loads((self.lab.directory / f"{NODE}.json").read_text())["agent"])

    @property
    def socket(self) -> Path:
        """Where HAProxy asks for an instance."""
        return self.directory / "placement.sock"

    def containers(self) -> set[str]:
        """Names of the containers of the node that have a cgroup: instances, and what is prepared."""
        groups = [tree / self.node for tree in trees() if (tree / self.node).is_dir()]
        return {of.name for group in groups for of in group.iterdir() if of.is_dir()}

    def start_controller(self, settings: Mapping[str, Any] | None = None) -> Process:
        return parts.start_burst_controller(self.lab, self._controller_settings() | dict(settings or {}))

    def start_placement(self) -> Process:
        port = json.loads(_record(self.lab).read_text())["controller_port"]
        return parts.start_burst_placement(
            self.lab,
            {
                "directory": str(self.directory),
                "controller": f"127.0.0.1:{port}",
                "server_name": SERVER_NAME,
                "agent_name": SERVER_NAME,
                "tls_directory": str(_mounted(self.certificates, PLACEMENT)),
            },
        )

    def _controller_settings(self) -> dict[str, Any]:
        port = json.loads(_record(self.lab).read_text())["controller_port"]
        return {
            "bind": f"127.0.0.1:{port}",
            "agents": [f"{self.node}={self.agent}"],
            "agent_name": SERVER_NAME,
            "least_prepared": 2,  # tests wait for containers before the first request
            "frozen_starts": 3,
            "tls_directory": str(_mounted(self.certificates, "tls")),
            "client_tls_directory": str(_mounted(self.certificates, CONTROLLER)),
        }


def why_no_plane() -> str | None:
    """Why it cannot run on this machine; None if it can."""
    if reason := why_no_namespace() or why_no_burst_node():
        return reason
    try:
        haproxy.find_haproxy()
    except LabError as error:
        return str(error)
    return None


def check() -> None:
    """Raise LabError if it cannot run on this machine, before anything is started."""
    if reason := why_no_plane():
        raise LabError(f"--with burst: {reason}")


def start(
    lab: Lab,
    *,
    controller: Mapping[str, Any] | None = None,
    balancer: Mapping[str, Any] | None = None,
    agent: Mapping[str, Any] | None = None,
    function: Function = _PODS_ANSWER,
) -> Plane:
    """Settings of the three processes; `function` is how regular pods answer."""
    function_port = start_functions(lab, {function.name: function})
    dial = partial(dial_pods_in, namespace_path(lab.directory, EMULATED_PODS).name)
    plane = _start_processes(lab, dial, balancer or {}, agent or {})
    load_port = start_load(lab, plane.traffic.gateway_port)
    traffic = replace(
        plane.traffic,
        functions={function.name: function},
        function_metrics_port=function_port,
        load_port=load_port,
    )
    plane = replace(plane, traffic=traffic)
    plane.start_controller(controller)
    plane.start_placement()
    lab_traffic.remember(lab, load_port, {function.name: f"{function.name}.default"})
    return plane


def start_before_knative(
    lab: Lab,
    autoscaler: str,
    ingress: str,
    *,
    controller: Mapping[str, Any] | None = None,
    balancer: Mapping[str, Any] | None = None,
) -> Plane:
    """In a lab that has Knative (`kwok.knative`), whose autoscaler and ingress are at these places."""
    plane = _start_processes(lab, str, {"ingress": ingress} | dict(balancer or {}), {})
    parts.apply_manifests(lab, parts.MANIFESTS / "burst-plane" / "knative")
    plane.start_controller({"knative_autoscaler": autoscaler} | dict(controller or {}))
    plane.start_placement()
    return plane


def _start_processes(
    lab: Lab, edit: Callable[[str], str], balancer: Mapping[str, Any], agent: Mapping[str, Any]
) -> Plane:
    """All but controller and placement. `edit` changes HAProxy's configuration."""
    certificates = lab.directory / "tls" / "burst"
    ensure(certificates, [SERVER_NAME], [PLACEMENT, CONTROLLER], datetime.now(UTC))
    node = _start_node(lab, certificates, _SHARE | dict(agent))
    parts.install_load_balancer(lab)
    parts.install_burst_plane(lab)
    directory, gateway_port = socket_path(lab, "lb"), lab.free_port()
    known = {"controller_port": lab.free_port(), "gateway_port": gateway_port}
    _record(lab).write_text(json.dumps(known))
    given = {
        "directory": str(directory), "listen": f"127.0.0.1:{gateway_port}", "functions": 8, "slots": 32,
        "placement_timeout_s": 5.0,  # machines with labs are busy
    }  # fmt: skip
    process = parts.start_load_balancer(
        lab,
        haproxy.find_haproxy(),
        given | dict(balancer),
        edit,
        name=BALANCER,
    )
    traffic = Traffic(lab, {}, gateway_port, process.port or 0, 0, 0)
    return Plane(lab, traffic, directory, node["node"], node["address"], certificates)


def url(lab: Lab) -> str:
    """Of the gateway."""
    return f"http://127.0.0.1:{json.loads(_record(lab).read_text())['gateway_port']}/"


def _start_node(lab: Lab, certificates: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    record = lab.directory / f"{NODE}.json"
    lab.start(
        NODE,
        [
            sys.executable, "-m", "kwok.burst.node_process", "--directory", lab.directory / NODE,
            "--certificates", certificates, "--record", record, "--settings", json.dumps(dict(settings)),
        ],
        ready=record.exists,
        timeout_s=180.0,
    )  # fmt: skip
    lab.processes.end_first(NODE)
    found: dict[str, str] = json.loads(record.read_text())
    return found


def _mounted(made: Path, pair: str) -> Path:
    """A pair and its CA, as a Secret is mounted."""
    directory = made / f"{pair}-mounted"
    directory.mkdir(exist_ok=True)
    (directory / "ca.crt").write_bytes((made / "ca.crt").read_bytes())
    for suffix in (".crt", ".key"):
        (directory / f"tls{suffix}").write_bytes((made / f"{pair}{suffix}").read_bytes())
    return directory


def _record(lab: Lab) -> Path:
    return lab.directory / "burst.json"
