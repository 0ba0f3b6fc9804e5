"""Live traffic in a lab: `start_traffic(lab, functions)`, then deploy, send requests, and read results.

    load generator -> HAProxy (both on the host's loopback) -> the pods' server (in the lab's namespace)

Functions and the gateway's timeout are in nominal time; the lab's `time_factor` divides them. Requests and
measurements are in seconds of this machine's clock.
"""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kwok import metrics_server
from kwok.errors import TrafficError
from kwok.lab import Lab
from kwok.network_namespace import EMULATED_PODS, namespace_path
from kwok.pods import wait_for_account
from kwok.ports import answers_ready
from kwok.traffic import haproxy
from kwok.traffic.function import Function
from kwok.traffic.function_process import CONTAINER, FUNCTION, POD_PORT
from kwok.traffic.functions import CLUSTER, GATEWAY_TIMEOUT_S, Cluster
from kwok.traffic.load_records import Records, read_records
from kwok.traffic.network import make_traffic_namespace
from surgekit.kube.client import ApiError

__all__ = [
    "Seen",
    "Traffic",
    "add_function_nodes",
    "ask",
    "socket_path",
    "start_functions",
    "start_load",
    "start_traffic",
]

NODES_OF = "lab.surgekit.dev/nodes-of"
_GATEWAY, _GATEWAY_PROCESS, _FUNCTIONS, _LOAD = "haproxy", "gateway", "functions", "load"
_LONGEST_SOCKET_PATH = 90  # Linux accepts 107; HAProxy appends to the path while it starts


@dataclass(frozen=True)
class Seen:
    """The counters of the load generator for one target."""

    at_s: float
    number: int  # its number in the records
    clients: int
    in_flight: int
    still_due: int  # requests of an open loop that are not yet sent
    answered: int
    errors: dict[int, int]  # by status, or CONNECTION or CUT (load_records)
    latency_sum_s: float  # of those answered


@dataclass(frozen=True)
class Traffic:
    """The traffic of one lab. A target is `function.namespace`."""

    lab: Lab
    functions: Mapping[str, Function]  # nominal
    gateway_port: int
    gateway_metrics_port: int
    function_metrics_port: int
    load_port: int

    def deploy(
        self,
        function: str,
        namespace: str,
        replicas: int,
        node_selector: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> str:
        """Create a Deployment and a Service for a function, wait until its pods get requests, and return
        the target."""
        kube, model = self.lab.kube, self.functions[function]
        try:
            kube.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        except ApiError as error:
            if error.code != 409:
                raise
        wait_for_account(kube, namespace)
        kube.create(f"/api/v1/namespaces/{namespace}/services", _service(function))
        kube.create(
            f"/apis/apps/v1/namespaces/{namespace}/deployments",
            _deployment(model, replicas, dict(node_selector or {})),
        )
        self.wait_for_replicas(function, namespace, replicas, timeout_s)
        return f"{function}.{namespace}"

    def scale(self, function: str, namespace: str, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{function}/scale"
        self.lab.kube.patch(path, {"spec": {"replicas": replicas}})

    def wait_for_replicas(
        self, function: str, namespace: str, replicas: int, timeout_s: float = 60.0
    ) -> None:
        """Wait until the gateway sends to exactly so many pods."""
        target = f"{function}.{namespace}"
        self.lab.wait_for(
            lambda: self.replicas()[target] == replicas, f"{replicas} pods of {target}", timeout_s
        )

    def replicas(self) -> dict[str, int]:
        """Pods that get requests, by target."""
        answer: dict[str, int] = ask(self.gateway_metrics_port, "/replicas")
        return answer

    def clients(self, target: str, count: int) -> None:
        """Run a closed loop with `count` clients from now on."""
        ask(self.load_port, "/clients", {"target": target, "clients": count})

    def replay(self, target: str, offsets_s: Sequence[float], paths: Sequence[str] = ()) -> None:
        """Run an open loop: a request at each of these times from now, in seconds of this machine's clock.

        `paths` has one of each request; without, all are for `/`."""
        ask(self.load_port, "/replay", {"target": target, "offsets_s": list(offsets_s), "paths": list(paths)})

    def sample(self) -> dict[str, Seen]:
        """The counters of all targets. The difference of two samples is an interval."""
        answer = ask(self.load_port, "/counters")
        return {name: _seen(answer["at_s"], counters) for name, counters in answer["targets"].items()}

    def records(self) -> Records:
        """Every request that has ended, in the order of their ends."""
        ask(self.load_port, "/flush")
        return read_records(_records(self.lab))


def start_traffic(
    lab: Lab,
    functions: Mapping[str, Function],
    *,
    namespaces: Sequence[str] = ("default",),
    gateway_timeout_s: float = GATEWAY_TIMEOUT_S,
    slots: int = 128,
    seed: int = 1,
    kubelet_port: int | None = None,
) -> Traffic:
    """Start the pods' server, the gateway and the load generator.

    Each function may be deployed once in each of `namespaces`, with up to `slots` pods. With
    `kubelet_port`, the server answers metrics-server there, for the nodes added with that port so far.
    """
    binary = haproxy.find_haproxy()
    backends = tuple(f"{function}.{namespace}" for namespace in namespaces for function in functions)
    function_port = start_functions(lab, functions, seed, kubelet_port)
    network_namespace = namespace_path(lab.directory, EMULATED_PODS)
    gateway_port, metrics_port = lab.free_port(), lab.free_port()
    gateway = haproxy.Gateway(
        gateway_port, backends, slots, POD_PORT, gateway_timeout_s / lab.time_factor, network_namespace.name,
        control=socket_path(lab, "haproxy.sock"), log=socket_path(lab, "haproxy.log.sock"),
    )  # fmt: skip
    settings = lab.directory / "haproxy.cfg"
    settings.write_text(haproxy.configuration(gateway))
    lab.start(_GATEWAY, [binary, "-db", "-f", settings], ready=gateway.control.exists, port=gateway_port)
    _start(
        lab, _GATEWAY_PROCESS, metrics_port, "gateway_process",
        "--kubeconfig", lab.kubeconfig, "--network-namespace", network_namespace, "--slots", str(slots),
        "--control", gateway.control, "--log", gateway.log,
        *(word for backend in backends for word in ("--backend", backend)),
    )  # fmt: skip
    load_port = start_load(lab, gateway_port)
    return Traffic(lab, functions, gateway_port, metrics_port, function_port, load_port)


def start_functions(
    lab: Lab, functions: Mapping[str, Function], seed: int = 1, kubelet_port: int | None = None
) -> int:
    """Start the pods' server in a network namespace of the lab; return the port of its metrics."""
    network_namespace = make_traffic_namespace(lab.directory)
    parameters = lab.directory / "functions.json"
    compressed = [asdict(function.compressed(lab.time_factor)) for function in functions.values()]
    parameters.write_text(json.dumps(compressed))
    kubelets: list[str | Path] = []
    if kubelet_port is not None:
        certificates = metrics_server.kubelet_certificates(lab)
        kubelets = ["--kubelet-port", str(kubelet_port), "--kubelet-certificates", certificates]
    port = lab.free_port()
    _start(
        lab, _FUNCTIONS, port, "function_process",
        "--kubeconfig", lab.kubeconfig, "--functions", parameters, "--network-namespace", network_namespace,
        "--time-factor", str(lab.time_factor), "--seed", str(seed), *kubelets,
    )  # fmt: skip
    return port


def start_load(lab: Lab, gateway_port: int) -> int:
    """Start the load generator; return its control port."""
    port = lab.free_port()
    _start(
        lab, _LOAD, port, "load_process",
        "--gateway-port", str(gateway_port), "--records", _records(lab),
    )  # fmt: skip
    return port


def add_function_nodes(
    lab: Lab, group: str, cluster: Cluster = CLUSTER, kubelet_port: int | None = None
) -> dict[str, str]:
    """Add a cluster's nodes for one function; return the node selector for them."""
    selector = {NODES_OF: group}
    for cores in cluster.allocatable_cores:
        lab.add_nodes(
            1,
            cpu=f"{cluster.node_cores:g}",
            allocatable_cpu=f"{cores:g}",
            memory=str(cluster.node_memory_bytes),
            prefix=group,
            labels=selector,
            kubelet_port=kubelet_port,
        )
    return selector


def _start(lab: Lab, name: str, port: int, module: str, *arguments: str | Path) -> None:
    argv: list[str | Path] = [sys.executable, "-m", f"kwok.traffic.{module}", "--port", str(port), *arguments]
    lab.start(name, argv, ready=lambda: answers_ready(port), port=port)


def socket_path(lab: Lab, name: str) -> Path:
    """The path of a socket, or of a directory with one; short enough for Linux."""
    path = lab.directory / name
    if len(str(path)) > _LONGEST_SOCKET_PATH:
        raise TrafficError(f"{path} is too long for a socket: choose a shorter SURGEKIT_STATE_DIR")
    return path


def _records(lab: Lab) -> Path:
    return lab.directory / "requests.bin"


def ask(port: int, path: str, order: Mapping[str, Any] | None = None) -> Any:
    """GET from a process of the lab. (urllib would go through the environment's proxy.)"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path, None if order is None else json.dumps(order))
        response = connection.getresponse()
        content = response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise TrafficError(f"{path}: {content.decode(errors='replace').strip()}")
    return json.loads(content) if content != b"ok\n" else None


def _seen(at_s: float, counters: Mapping[str, Any]) -> Seen:
    statuses = {int(status): count for status, count in counters["statuses"].items()}
    return Seen(
        at_s=at_s,
        number=counters["number"],
        clients=counters["clients"],
        in_flight=counters["in_flight"],
        still_due=counters["still_due"],
        answered=statuses.pop(200, 0),
        errors=statuses,
        latency_sum_s=counters["latency_sum_s"],
    )


def _service(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {FUNCTION: name}},
        "spec": {
            "selector": {FUNCTION: name},
            "ports": [{"name": "http", "port": 80, "targetPort": POD_PORT}],
        },
    }


def _deployment(function: Function, replicas: int, node_selector: dict[str, str]) -> dict[str, Any]:
    resources = {"cpu": f"{round(function.cpu_cores * 1000)}m", "memory": str(function.memory_bytes)}
    labels = {FUNCTION: function.name}
    return {
        "metadata": {"name": function.name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": node_selector,
                    "automountServiceAccountToken": False,
                    "containers": [
                        {
                            "name": CONTAINER,
                            "image": f"functions.example/{function.name}:1",
                            "ports": [{"containerPort": POD_PORT}],
                            "resources": {"requests": resources, "limits": resources},
                        }
                    ],
                },
            },
        },
    }
