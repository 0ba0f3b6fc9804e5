"""How long the largest request takes that the caller sends, as the caller sees it: `surgekit bench expander`.

The server is a process of its own, started as in a cluster and asked over TLS: in one process client and
server would wait for each other's interpreter lock.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import grpc
import orjson

from cluster_autoscaler_hook.expander import expander_pb2
from surgekit.tls import mutual_tls
from surgekit.tls.files import ensure

__all__ = ["large_request", "measure"]

# The caller's and our limit of a message, and a little for what is not pods.
_BYTES = (128 << 20) - (1 << 16)
# Of a pod with environment, volumes and a status, as they are in clusters.
_POD_BYTES = 3000
# Few pods that every group helps, and many that two groups help: both fill the limit.
_SHAPES = {"40 groups": 40, "2 groups": 2}

# The caller asks every 10 s (--scan-interval); this is enough for what follows an answer to be over.
_PAUSE_S = 1.0
_READER = "surgekit-viewer"


def large_request(
    groups: int, pod_bytes: int = _POD_BYTES, total_bytes: int = _BYTES, kinds: int = 20
) -> bytes:
    """As many pods, each with names of its own, as fit when every group lists all of them."""
    count = total_bytes // groups // (pod_bytes + 4)
    pods = [_pod(i, i % kinds, pod_bytes) for i in range(count)]
    request = expander_pb2.BestOptionsRequest()
    for group in range(groups):
        cpus = 4 * (1 + group % 8)
        request.options.add(nodeGroupId=f"group-{group}", nodeCount=count // cpus + 1).podBytes.extend(pods)
        node = expander_pb2.Node()
        price = f"{0.05 * cpus + 0.001 * group:.3f}"
        node.metadata.labels.add(key="surgekit.dev/price-per-hour", value=price)
        _fill(node.status.allocatable, cpu=str(cpus), memory=f"{4 * cpus}Gi", pods="110")
        request.nodeBytesMap.add(key=f"group-{group}", value=node.SerializeToString())
    return request.SerializeToString()


def _pod(number: int, kind: int, size: int) -> bytes:
    """A replica of deployment `kind`: name, uid and the token's volume differ, as the API server has them."""
    app = f"app-{kind}"
    metadata = expander_pb2.Pod()
    metadata.metadata.namespace = "default"
    for key, value in (("app", app), ("pod-template-hash", f"{kind:010d}")):
        metadata.metadata.labels.add(key=key, value=value)
    names = _field(1, f"{app}-{number:05d}".encode()) + _field(5, str(UUID(int=number + 1)).encode())
    token = f"kube-api-access-{number:05d}".encode()
    own = expander_pb2.Pod()
    container = own.spec.containers.add()
    _fill(container.resources.requests, cpu=f"{100 + 50 * kind}m", memory=f"{128 * (kind + 1)}Mi")
    mount = _field(9, _field(1, token) + _field(3, b"/var/run/secrets"))
    tolerations = b"".join(
        _field(22, _field(1, key) + _field(2, b"Exists") + _field(4, b"NoExecute"))
        for key in (b"node.kubernetes.io/not-ready", b"node.kubernetes.io/unreachable")
    )
    status = _field(3, _field(1, b"Pending"))
    # A message given in pieces is one message: https://protobuf.dev/programming-guides/encoding/#last-one-wins
    head = _field(1, names) + metadata.SerializeToString()
    inside = container.SerializeToString() + mount

    def whole(environment: bytes) -> bytes:
        spec = _field(1, _field(1, token)) + _field(2, inside + environment) + tolerations
        return bytes(head + _field(2, spec) + status)

    variable = _field(7, _field(1, b"SOME_VARIABLE") + _field(2, b"x" * 80))
    room = size - len(whole(variable)) + len(variable)
    full, rest = divmod(room, len(variable))
    return whole(variable * full) + _field(15, b"x" * (rest - 3 if rest > 2 else 0))


def _field(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _fill(entries: Any, **amounts: str) -> None:
    for key, value in amounts.items():
        entries.add(key=key).value.string = value


def measure(deadline_s: float, say: Callable[[str], None], rounds: int = 10) -> dict[str, float]:
    """Seconds as the caller sees them and as our handler does: the median and the worst of all rounds."""
    figures: dict[str, float] = {}
    worst = 0.0
    with tempfile.TemporaryDirectory() as directory, _serving(Path(directory), deadline_s) as (ask, explain):
        for name, groups in _SHAPES.items():
            body = large_request(groups)
            seconds = [_timed(ask, body) for _ in range(rounds)]
            decisions = explain()[:rounds]
            inside = [kept["duration_ms"] / 1000 for kept in decisions]
            worst = max(worst, *seconds)
            for what, taken in (("seconds", seconds), ("seconds inside", inside)):
                figures[f"{len(body) >> 20} MiB, {name}: {what}, median"] = round(statistics.median(taken), 3)
                figures[f"{len(body) >> 20} MiB, {name}: {what}, worst"] = round(max(taken), 3)
            say(f"{name}: {[round(s, 3) for s in seconds]}; not decided in full: {_fallbacks(decisions)}")
    return figures | {"largest_request_s": round(worst, 3)}


def _fallbacks(decisions: list[dict[str, Any]]) -> list[str]:
    return sorted({str(kept["fallback"]) for kept in decisions if kept["fallback"]})


def _timed(ask: Callable[..., bytes], body: bytes) -> float:
    time.sleep(_PAUSE_S)
    started_s = time.monotonic()
    ask(body, timeout=30)
    return time.monotonic() - started_s


@contextmanager
def _serving(
    directory: Path, deadline_s: float
) -> Iterator[tuple[Callable[..., bytes], Callable[[], list[dict[str, Any]]]]]:
    """(a call of BestOptions, a look at /explain)."""
    ensure(directory, ["localhost"], [_READER], datetime.now(UTC))
    address = "127.0.0.1:0"
    arguments = ["--bind", address, "--health-bind", address, "--tls-directory", str(directory)]
    server = subprocess.Popen(
        [sys.executable, "-m", "surgekit", "serve", "expander", *arguments],
        env=os.environ
        | {
            "SURGEKIT_EXPANDER_DEADLINE_S": str(deadline_s),
            "SURGEKIT_EXPANDER_MODE": "enforce",
            "SURGEKIT_EXPANDER_EXPLAIN_BIND": address,
            "SURGEKIT_EXPANDER_CLIENT_NAMES": _READER,
        },
        stdin=subprocess.DEVNULL,
        stderr=(directory / "log").open("wb"),
    )
    try:
        ports = _started(server, directory / "log")
        credentials = grpc.ssl_channel_credentials((directory / "ca.crt").read_bytes())
        options = [("grpc.max_send_message_length", -1)]
        with grpc.secure_channel(f"localhost:{ports['port']}", credentials, options) as channel:
            yield (
                channel.unary_unary("/grpcplugin.Expander/BestOptions"),
                lambda: _explained(ports["explain_port"], directory),
            )
    finally:
        server.terminate()
        server.wait()


def _started(server: subprocess.Popen[bytes], log: Path) -> dict[str, int]:
    """The ports it took, from its log."""
    until_s = time.monotonic() + 30
    while server.poll() is None and time.monotonic() < until_s:
        for line in log.read_bytes().split(b"\n")[:-1]:
            if b'"expander started"' in line:
                ports: dict[str, int] = orjson.loads(line)
                return ports
        time.sleep(0.05)
    raise RuntimeError(f"the expander did not start: {log.read_text()}")


def _explained(port: int, certificates: Path) -> list[dict[str, Any]]:
    _, body = mutual_tls.request(f"https://localhost:{port}/explain", certificates, _READER)
    decisions: list[dict[str, Any]] = orjson.loads(body)
    return decisions
