"""How long the largest request takes that the caller sends, over TLS: for `surgekit bench expander`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc

from cluster_autoscaler_hook.expander import wire
from cluster_autoscaler_hook.expander.plan import Solve
from cluster_autoscaler_hook.expander.server import Server
from cluster_autoscaler_hook.expander.settings import Settings
from surgekit.certificates.files import ensure

__all__ = ["large_request", "measure"]

# The caller's and our limit of a message, and a little for what is not pods.
_BYTES = (128 << 20) - (1 << 16)
# Name, labels, environment, volumes and probes of a pod as they are in clusters.
_POD_BYTES = 3000
# Few pods that every group helps, and many that two groups help: both fill the limit.
_SHAPES = {"40 groups": 40, "2 groups": 2}


def large_request(
    groups: int, pod_bytes: int = _POD_BYTES, total_bytes: int = _BYTES, kinds: int = 20
) -> bytes:
    """As many pods, each with a name of its own, as fit when every group lists all of them."""
    count = total_bytes // groups // (pod_bytes + 4)
    pods = [_pod(i, i % kinds, pod_bytes) for i in range(count)]
    request = wire.BestOptionsRequest()
    for group in range(groups):
        cpus = 4 * (1 + group % 8)
        request.options.add(nodeGroupId=f"group-{group}", nodeCount=count // cpus + 1).podBytes.extend(pods)
        node = wire.Node()
        price = f"{0.05 * cpus + 0.001 * group:.3f}"
        node.metadata.labels.add(key="surgekit.dev/price-per-hour", value=price)
        _fill(node.status.allocatable, cpu=str(cpus), memory=f"{4 * cpus}Gi", pods="110")
        request.nodeBytesMap.add(key=f"group-{group}", value=node.SerializeToString())
    body: bytes = request.SerializeToString()
    return body


def _pod(number: int, kind: int, size: int) -> bytes:
    pod = wire.Pod()
    requests = pod.spec.containers.add().resources.requests
    _fill(requests, cpu=f"{100 + 50 * kind}m", memory=f"{128 * (kind + 1)}Mi")
    essential: bytes = pod.SerializeToString()
    padding = f"{number:012d}".encode().ljust(size - len(essential) - 3, b"x")
    return essential + b"\x7a" + bytes([len(padding) & 127 | 128, len(padding) >> 7]) + padding  # field 15


def _fill(entries: Any, **amounts: str) -> None:
    for key, value in amounts.items():
        entries.add(key=key).value.string = value


def measure(solve: Solve, deadline_s: float, say: Callable[[str], None], rounds: int = 3) -> dict[str, float]:
    """The slowest of some rounds, in seconds as the caller sees them."""
    figures = {}
    with tempfile.TemporaryDirectory() as directory:
        ensure(Path(directory), ["localhost"], [], datetime.now(UTC))
        settings = Settings(
            bind="127.0.0.1:0", http_bind="127.0.0.1:0", tls_directory=Path(directory), deadline_s=deadline_s
        )
        server = Server(settings, solve).start()
        credentials = grpc.ssl_channel_credentials((Path(directory) / "ca.crt").read_bytes())
        options = [("grpc.max_send_message_length", -1)]
        try:
            with grpc.secure_channel(f"localhost:{server.port}", credentials, options) as channel:
                ask: Callable[..., bytes] = channel.unary_unary(f"/{wire.SERVICE}/{wire.METHOD}")
                for name, groups in _SHAPES.items():
                    body = large_request(groups)
                    seconds = [_timed(ask, body) for _ in range(rounds)]
                    inside = [kept["duration_ms"] / 1000 for kept in server.expander.explain()[:rounds]]
                    figures[f"{len(body) >> 20} MiB, {name}: seconds"] = round(max(seconds), 3)
                    figures[f"{len(body) >> 20} MiB, {name}: seconds inside"] = round(max(inside), 3)
                    say(f"{name}: {seconds}, {server.expander.explain()[0]['fallback']}")
        finally:
            server.stop()
    return figures


def _timed(ask: Callable[..., bytes], body: bytes) -> float:
    started_s = time.monotonic()
    ask(body, timeout=30)
    return time.monotonic() - started_s
