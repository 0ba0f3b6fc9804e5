"""Sync pods to the lab's HAProxy, and export its metrics.

`python -m kwok.traffic.gateway_process`. Pods come from EndpointSlices, as for kube-proxy. A pod that
leaves its slice gets no new requests and finishes the ones it has. On the host's loopback: /readyz,
/metrics, and /replicas, the pods in use.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import orjson
import prometheus_client
import structlog
import uvloop
from prometheus_client import CollectorRegistry, generate_latest

from kwok.errors import TrafficError
from kwok.network.namespaces import inside
from kwok.traffic import endpoints, haproxy
from kwok.traffic.function_process import FUNCTION
from kwok.traffic.gateway_metrics import GatewayMetrics
from kwok.traffic.wait_for_signal import wait_for_signal
from surgekit.haproxy.runtime import Runtime, refusals
from surgekit.haproxy.slots import Slots
from surgekit.kube.client import Kube
from surgekit.kube.watch import Watch
from surgekit.process import logs

__all__ = ["GatewayProcess"]

log = structlog.get_logger(__name__)

_LINE_BYTES = 512
_LINES_AT_ONCE = 1000  # then yield to the event loop
_POLL_S = 1.0

Json = dict[str, Any]


class GatewayProcess:
    """Endpoints in, HAProxy commands out; log lines in, metrics out. Used from one event loop."""

    def __init__(self, control: Path, backends: list[str], slots: int, metrics: GatewayMetrics) -> None:
        self._haproxy, self._count, self._metrics = Runtime(control), slots, metrics
        self._slots = {backend: Slots(slots) for backend in backends}
        self._slices: dict[str, tuple[str, dict[str, str]]] = {}  # slice uid -> backend, pod uid -> address
        self._changed, self._listed = asyncio.Event(), False
        self._haproxy_pid = ""
        self.replicas = dict.fromkeys(backends, 0)  # pods that HAProxy sends to
        self.settled = False  # all pods were synced at least once

    def observe(self, slices: dict[str, tuple[str, dict[str, str]]], whole: bool) -> None:
        if whole:
            self._slices.clear()
            self._listed = True
        self._slices.update(slices)
        self._changed.set()

    def forget(self, uid: str) -> None:
        self._slices.pop(uid, None)
        self._changed.set()

    async def follow(self) -> None:
        """Until cancelled: apply changes, and sync again after a restart of HAProxy."""
        while True:
            try:
                async with asyncio.timeout(_POLL_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
            try:
                await self._poll()
                if self._changed.is_set():
                    self._changed.clear()
                    await self._carry_out()
                    self.settled = self._listed
            except OSError as error:
                log.warning("haproxy does not answer", error=str(error))
                self._haproxy_pid = ""
                await asyncio.sleep(_POLL_S)

    async def _poll(self) -> None:
        info = await asyncio.to_thread(self._haproxy.info)
        self._metrics.lost_lines.set(int(info["DroppedLogs"]))
        if info["Pid"] != self._haproxy_pid:  # a restarted HAProxy has no pods
            self._haproxy_pid = info["Pid"]
            self._slots = {backend: Slots(self._count) for backend in self._slots}
            self.replicas = dict.fromkeys(self._slots, 0)
            self._changed.set()

    async def _carry_out(self) -> None:
        pods: dict[str, dict[str, str]] = {backend: {} for backend in self._slots}
        for backend, addresses in self._slices.values():
            if backend in pods:
                pods[backend] |= addresses
            else:
                log.warning("endpoints of a function the gateway was not told of", function=backend)
        commands = []
        for backend, slots in self._slots.items():
            for change in slots.update(pods[backend].values()):
                server = f"set server {backend}/{haproxy.slot(change.slot)}"
                if change.owner is None:
                    commands.append(f"{server} state maint")  # it finishes its requests
                else:
                    commands += [f"{server} addr {change.owner}", f"{server} state ready"]
            self._metrics.replicas.labels(backend).set(len(slots.taken))
            self._metrics.without_slot.labels(backend).set(len(slots.without))
            if slots.without:
                log.error("the gateway has too few slots", function=backend, pods=len(slots.without))
        for line in refusals(await asyncio.to_thread(self._haproxy.run, commands)):
            log.error("haproxy refuses", answer=line)
        self.replicas = {backend: len(slots.taken) for backend, slots in self._slots.items()}

    async def count_in_flight(self) -> None:
        for row in await asyncio.to_thread(self._haproxy.backends):
            if row["pxname"] in self._slots:
                self._metrics.in_flight.labels(row["pxname"]).set(int(row["scur"]))


class _SliceWatch:
    """Passes EndpointSlices to the gateway. Called from the watch's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, gateway: GatewayProcess) -> None:
        self._loop, self._gateway = loop, gateway

    def replace(self, objects: list[Json], arrival_s: float) -> None:  # noqa: ARG002
        slices = {piece["metadata"]["uid"]: _pods_of(piece) for piece in objects}
        self._loop.call_soon_threadsafe(self._gateway.observe, slices, True)

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:  # noqa: ARG002
        uid = obj["metadata"]["uid"]
        if kind == "DELETED":
            self._loop.call_soon_threadsafe(self._gateway.forget, uid)
        else:
            self._loop.call_soon_threadsafe(self._gateway.observe, {uid: _pods_of(obj)}, False)


def _pods_of(piece: Json) -> tuple[str, dict[str, str]]:
    """The backend of a slice, and its pods that take requests."""
    meta = piece["metadata"]
    backend = f"{meta['labels']['kubernetes.io/service-name']}.{meta['namespace']}"
    return backend, {
        endpoint["targetRef"]["uid"]: endpoint["addresses"][0]
        for endpoint in piece.get("endpoints") or []
        if endpoint.get("conditions", {}).get("ready", True) and "targetRef" in endpoint
    }


def _read_log(path: Path) -> socket.socket:
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    path.unlink(missing_ok=True)
    receiver.bind(os.fspath(path))
    receiver.setblocking(False)
    return receiver


async def _run(given: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    registry = CollectorRegistry()
    metrics = GatewayMetrics(registry)
    gateway = GatewayProcess(given.control, given.backend, given.slots, metrics)
    # Created in the namespace for its longer queues; its path works everywhere.
    receiver = inside(given.network_namespace, lambda: _read_log(given.log))

    def read() -> None:
        for _ in range(_LINES_AT_ONCE):
            try:
                line = receiver.recv(_LINE_BYTES)
            except BlockingIOError:
                return
            metrics.observe(line)

    loop.add_reader(receiver, read)
    kube = Kube.connect(given.kubeconfig)
    watch = Watch(
        kube,
        "/apis/discovery.k8s.io/v1/endpointslices",
        _SliceWatch(loop, gateway),
        labelSelector=FUNCTION,
    ).start()
    following = asyncio.create_task(gateway.follow())

    async def ready(_: bytes) -> str:
        if not (watch.synced.is_set() and gateway.settled):
            raise TrafficError("haproxy does not know the pods yet")
        return "ok\n"

    async def answer_metrics(_: bytes) -> bytes:
        await gateway.count_in_flight()
        read()
        return generate_latest(registry)

    async def replicas(_: bytes) -> bytes:
        return orjson.dumps(gateway.replicas)

    routes: dict[str, endpoints.Route] = {"/readyz": ready, "/metrics": answer_metrics, "/replicas": replicas}
    async with endpoints.serving_routes(given.port, routes):
        await wait_for_signal()
    following.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--network-namespace", type=Path, required=True)
    parser.add_argument("--control", type=Path, required=True, help="HAProxy's socket for commands")
    parser.add_argument("--log", type=Path, required=True, help="the socket HAProxy logs to; made here")
    parser.add_argument("--backend", action="append", required=True, help="function.namespace")
    parser.add_argument("--slots", type=int, required=True, help="servers a backend has")
    parser.add_argument("--port", type=int, required=True, help="of /readyz, /metrics and /replicas")
    given = parser.parse_args()
    logs.configure()
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no types
    uvloop.run(_run(given))


if __name__ == "__main__":
    main()
