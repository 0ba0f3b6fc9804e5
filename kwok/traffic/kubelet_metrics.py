"""Answer metrics-server for the kubelets of emulated nodes: the usage of each container.

One listener serves all nodes. Each node has a loopback address of its own (`kwok.nodes`), and the dialled
address identifies the node. Figures are current; a real kubelet's are up to its housekeeping interval (10
s) old.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kwok.errors import TrafficError
from kwok.traffic.connections import serving

__all__ = ["KubeletMetrics", "PodUsage", "UsageSource", "listen", "resource_metrics", "server_context"]

_PATH = b"/metrics/resource"
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# metrics-server reads a usage of 0 as a missing figure and drops the pod (v0.9.0, checkContainerMetrics), so
# an idle new pod would be absent. Any real container has used some CPU to start.
_LEAST_CPU_S = 0.001
_BACKLOG = 1024


@dataclass(frozen=True)
class PodUsage:
    """The usage of one container of one pod."""

    namespace: str
    pod: str
    container: str
    cpu_seconds_total: float  # since the container started
    memory_bytes: int  # working set, now
    started_s: float  # Unix time; a change means a restart

    def __post_init__(self) -> None:
        if not self.cpu_seconds_total >= 0:
            raise TrafficError(
                f"{self.namespace}/{self.pod}: cpu_seconds_total is {self.cpu_seconds_total!r}"
            )
        if not self.memory_bytes > 0:  # metrics-server drops a pod without memory
            raise TrafficError(
                f"{self.namespace}/{self.pod}: memory_bytes is {self.memory_bytes!r}, not above 0"
            )


class UsageSource(Protocol):
    """Knows the current usage of the containers on a node."""

    def usage(self, node: str) -> Sequence[PodUsage]: ...


def resource_metrics(containers: Sequence[PodUsage], now_s: float) -> bytes:
    """The kubelet's /metrics/resource: the families that metrics-server reads.

    Formatted here, because prometheus_client takes 6 ms for 110 pods, which would add latency to requests
    served by the same process. Names of Kubernetes objects need no escaping.
    """
    stamp = f" {int(now_s * 1000)}"
    cpu, memory, started = [], [], []
    total_cpu_s, total_bytes = _LEAST_CPU_S, 1  # an idle node would be dropped like an idle pod
    for c in containers:
        labels = f'{{container="{c.container}",namespace="{c.namespace}",pod="{c.pod}"}} '
        used_s = max(c.cpu_seconds_total, _LEAST_CPU_S)
        cpu.append(f"{labels}{used_s!r}{stamp}")
        memory.append(f"{labels}{c.memory_bytes}{stamp}")
        started.append(f"{labels}{c.started_s!r}")
        total_cpu_s += used_s
        total_bytes += c.memory_bytes
    families = (
        ("container_cpu_usage_seconds_total", "counter", cpu),
        ("container_memory_working_set_bytes", "gauge", memory),
        ("container_start_time_seconds", "gauge", started),
        ("node_cpu_usage_seconds_total", "counter", [f" {total_cpu_s!r}{stamp}"]),
        ("node_memory_working_set_bytes", "gauge", [f" {total_bytes}{stamp}"]),
    )
    lines: list[str] = []
    for name, kind, samples in families:
        lines.append(f"# TYPE {name} {kind}")
        lines += [name + sample for sample in samples]
    return "\n".join([*lines, ""]).encode()


def listen(port: int) -> socket.socket:
    """A socket for `port` of every loopback address. It stays in the network namespace in which it was
    created."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Bound to the loopback device, since 127.0.0.0/8 cannot be bound as a whole.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
    listener.bind(("0.0.0.0", port))  # noqa: S104  # loopback alone, see above
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


def server_context(certificates: Path) -> ssl.SSLContext:
    """For `tls.crt` and `tls.key` in a directory from `kwok.metrics_server.kubelet_certificates`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificates / "tls.crt", certificates / "tls.key")
    return context


class KubeletMetrics:
    """Serves /metrics/resource for every node in `nodes` (address -> name)."""

    def __init__(
        self,
        source: UsageSource,
        nodes: Mapping[str, str],
        context: ssl.SSLContext,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._source, self._nodes, self._context, self._clock = source, nodes, context, clock

    def serving(self, listener: socket.socket) -> AbstractAsyncContextManager[asyncio.Server]:
        """Answer on the running loop while the block runs."""
        return serving(self._connection, sock=listener, ssl=self._context)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("sockname")[0]
        # Closed by the peer, broken, or not HTTP: the scrape fails, and metrics-server reports it.
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(request.split(b" ", 2)[:2], address))
                await writer.drain()

    def _answer(self, request: list[bytes], address: str) -> bytes:
        if request != [b"GET", _PATH]:
            return _response(404, "Not Found", b"only GET /metrics/resource is served\n")
        if (node := self._nodes.get(address)) is None:
            return _response(404, "Not Found", f"no node has the address {address}\n".encode())
        # As close to the figures as possible: rates are computed from differences of this time.
        now_s = self._clock()
        return _response(200, "OK", resource_metrics(self._source.usage(node), now_s))


def _response(status: int, reason: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: {_CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
