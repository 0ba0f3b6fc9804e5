"""Serve requests for a lab's pods: `python -m kwok.traffic.function_process`.

Watches pods with the label `lab.surgekit.dev/function`. `kwok.traffic.pod_server` answers for those that
are Ready, on port 8080 of their addresses inside the lab's network namespace. On the host's loopback it
serves /readyz, /metrics, /pods (the counts of each pod) and, for metrics-server, the pods' usage as their
nodes' kubelets. A pod's annotation `surgekit.dev/concurrency` and the current CPU of its container override
its function's parameters.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import time
from contextlib import AsyncExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import orjson
import structlog
import uvloop
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from kwok.errors import TrafficError
from kwok.network.namespaces import inside
from kwok.nodes import kubelet_addresses
from kwok.traffic import endpoints
from kwok.traffic.function import Function
from kwok.traffic.kubelet_metrics import KubeletMetrics, PodUsage, listen, resource_metrics, server_context
from kwok.traffic.pod_server import Pod, PodServer
from kwok.traffic.wait_for_signal import wait_for_signal
from surgekit.kube import quantity
from surgekit.kube.client import Kube
from surgekit.kube.watch import Watch
from surgekit.process import logs

__all__ = ["CONCURRENCY", "CONTAINER", "FUNCTION", "POD_PORT", "read_functions"]

log = structlog.get_logger(__name__)

FUNCTION = "lab.surgekit.dev/function"
POD_PORT = 8080
CONTAINER = "function"
CONCURRENCY = "surgekit.dev/concurrency"  # annotation: requests that the pod runs at once
_BACKLOG = 4096

Json = dict[str, Any]


def read_functions(path: Path) -> dict[str, Function]:
    """Functions by name, as `dataclasses.asdict` wrote them."""
    known = {f.name for f in fields(Function)}
    functions = {}
    for entry in orjson.loads(path.read_bytes()):
        if unknown := entry.keys() - known:
            raise TrafficError(f"{path}: {min(unknown)!r} is not a parameter of a function")
        functions[entry["name"]] = Function(**entry)
    return functions


class _PodWatch:
    """Passes pods to the server. Called from the watch's thread."""

    def __init__(
        self, kube: Kube, loop: asyncio.AbstractEventLoop, server: PodServer, functions: dict[str, Function]
    ) -> None:
        self._kube, self._loop, self._server, self._functions = kube, loop, server, functions
        self._nodes: set[str] = set()
        self._known: set[str] = set()

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        there = {pod["metadata"]["uid"] for pod in objects}
        for uid in self._known - there:
            self._gone(uid)
        for pod in objects:
            self.apply("MODIFIED", pod, arrival_s)

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:  # noqa: ARG002
        meta, status = obj["metadata"], obj["status"]
        uid = meta["uid"]
        grace_s = meta.get("deletionGracePeriodSeconds", 0) if "deletionTimestamp" in meta else None
        if kind == "DELETED" or not _ready(status) or grace_s == 0:
            self._gone(uid)
        elif grace_s is not None:
            self._tell(self._server.end, uid, float(grace_s))
        elif uid not in self._known:
            self._add(obj)
        elif function := self._sized(obj):
            self._tell(self._server.resize, uid, function)

    def _gone(self, uid: str) -> None:
        if uid in self._known:
            self._known.discard(uid)
            self._tell(self._kill_unless_ending, uid)

    def _kill_unless_ending(self, uid: str) -> None:
        # KWOK removes a deleted pod at once; a kubelet would wait for its server.
        if (pod := self._server.pods.get(uid)) and not pod.told_to_end:
            self._server.kill(uid)

    def _add(self, obj: Json) -> None:
        meta, node = obj["metadata"], obj["spec"]["nodeName"]
        function = self._sized(obj)
        if function is None:
            log.warning("pod of an unknown function", pod=meta["name"], function=meta["labels"][FUNCTION])
            return
        if node not in self._nodes:
            capacity = self._kube.get(f"/api/v1/nodes/{node}")["status"]["capacity"]
            self._nodes.add(node)
            self._tell(self._server.model.add_node, node, quantity.parse(capacity["cpu"]))
        self._known.add(meta["uid"])
        address = obj["status"]["podIP"]
        self._tell(
            self._server.add, Pod(meta["uid"], meta["namespace"], meta["name"], node, address, function)
        )

    def _sized(self, pod: Json) -> Function | None:
        """The pod's function with its own concurrency and CPU limit, where it has them."""
        function = self._functions.get(pod["metadata"]["labels"][FUNCTION])
        if function is None:
            return None
        text = (pod["metadata"].get("annotations") or {}).get(CONCURRENCY, "")
        return replace(
            function,
            concurrency=int(text) if text.isdigit() else function.concurrency,
            cpu_cores=_cpu_limit(pod) or function.cpu_cores,
        )

    def _tell(self, what: Any, *arguments: Any) -> None:
        self._loop.call_soon_threadsafe(what, *arguments)


def _cpu_limit(pod: Json) -> float | None:
    """The CPU limit in force, else the requested one, of the serving container (or the first)."""
    containers = pod["spec"]["containers"]
    name = next((c["name"] for c in containers if c["name"] == CONTAINER), containers[0]["name"])
    for where in (pod["status"].get("containerStatuses") or [], containers):
        for container in where:
            limits = (container.get("resources") or {}).get("limits") or {}
            if container["name"] == name and "cpu" in limits:
                return quantity.parse(limits["cpu"])
    return None


def _ready(status: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or [])


class _Metrics(Collector):
    def __init__(self, server: PodServer) -> None:
        self._server = server

    def collect(self) -> list[CounterMetricFamily | GaugeMetricFamily]:
        requests = CounterMetricFamily(
            "lab_function_requests", "Requests by how they ended", labels=["namespace", "function", "outcome"]
        )
        for labels, count in self._server.outcomes.items():
            requests.add_metric(labels, count)
        pods = GaugeMetricFamily("lab_function_pods", "Pods that serve", labels=["namespace", "function"])
        in_flight = GaugeMetricFamily(
            "lab_function_in_flight", "Requests in pods", labels=["namespace", "function"]
        )
        totals: dict[tuple[str, str], list[int]] = {}
        for pod in self._server.pods.values():
            total = totals.setdefault((pod.namespace, pod.function.name), [0, 0])
            total[0] += 1
            total[1] += self._server.model.in_flight(pod.uid)
        for key, (count, requests_in) in totals.items():
            pods.add_metric(key, count)
            in_flight.add_metric(key, requests_in)
        return [requests, pods, in_flight]


class _Usage:
    """The usage that kubelets would report. Memory is not modelled: a pod uses its whole limit."""

    def __init__(self, server: PodServer) -> None:
        self._server = server

    def usage(self, node: str | None) -> list[PodUsage]:
        """The pods of one node, or of all."""
        now_s = time.monotonic()
        return [
            PodUsage(
                pod.namespace,
                pod.name,
                CONTAINER,
                self._server.model.cpu_used_s(pod.uid, now_s),
                pod.function.memory_bytes,
                pod.started_s,
            )
            for pod in self._server.pods.values()
            if node in (None, pod.node)
        ]


def _listen() -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", POD_PORT))  # noqa: S104  # of the lab's namespace: every pod's address
    listener.listen(_BACKLOG)
    return listener


async def _run(given: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    server = PodServer(loop, given.time_factor, given.seed)
    kube = Kube.connect(given.kubeconfig)
    watch = Watch(
        kube,
        "/api/v1/pods",
        _PodWatch(kube, loop, server, read_functions(given.functions)),
        labelSelector=FUNCTION,
    ).start()
    registry = CollectorRegistry()
    registry.register(_Metrics(server))

    async def ready(_: bytes) -> str:
        if not watch.synced.is_set():
            raise TrafficError("the pods are not known yet")
        return "ok\n"

    usage = _Usage(server)

    async def metrics(_: bytes) -> bytes:
        # Prometheus would scrape each kubelet; here one page has all nodes.
        return generate_latest(registry) + resource_metrics(usage.usage(None), time.time())

    async def pods(_: bytes) -> bytes:
        return orjson.dumps(
            {
                pod.name: {
                    "concurrency": pod.function.concurrency,
                    "in_flight": server.model.in_flight(pod.uid),
                    "most_at_once": pod.most_at_once,
                    "answered": pod.answered,
                }
                for pod in server.pods.values()
            }
        )

    listener = inside(given.network_namespace, _listen)
    await loop.create_server(server.protocol, sock=listener, backlog=_BACKLOG)
    routes: dict[str, endpoints.Route] = {"/readyz": ready, "/metrics": metrics, "/pods": pods}
    async with AsyncExitStack() as servers:
        await servers.enter_async_context(endpoints.serving_routes(given.port, routes))
        if given.kubelet_port is not None:
            context = server_context(given.kubelet_certificates)
            kubelets = KubeletMetrics(usage, kubelet_addresses(kube), context)
            await servers.enter_async_context(kubelets.serving(listen(given.kubelet_port)))
        log.info("functions serve")
        await wait_for_signal()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--functions", type=Path, required=True, help="parameters, durations as they run")
    parser.add_argument("--network-namespace", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True, help="of /readyz and /metrics")
    parser.add_argument("--time-factor", type=float, default=1.0, help="divides pods' grace periods")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kubelet-port", type=int, help="of the nodes' kubelets")
    parser.add_argument("--kubelet-certificates", type=Path, help="directory with tls.crt and tls.key")
    given = parser.parse_args()
    logs.configure()
    uvloop.run(_run(given))


if __name__ == "__main__":
    main()
