"""How long the monitor takes for many functions: real Prometheus, a fake gateway, all on one core."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from hpa_replacement.observe.monitor import MetricsRequest, Reading, read
from kwok import prometheus
from kwok.errors import LabError
from kwok.lab import Lab
from surgekit.prometheus.client import Prometheus, QueryBatch

__all__ = ["run"]

_WINDOW_S = 30.0  # III-A
_SCRAPE_S = 5.0
_NAMESPACES = 10
_TIMEOUT_S = 30.0


def run(functions: int, pods: int, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    asked = [
        MetricsRequest(
            f"ns-{i % _NAMESPACES}/f-{i}", f"ns-{i % _NAMESPACES}", f"f-{i}", f"f-{i}", _WINDOW_S,
            frozenset(_pods(i, pods)), "openfaas",
        )
        for i in range(functions)
    ]  # fmt: skip
    with (
        Lab.temporary("monitor", instant_pods=True, time_factor=1.0) as lab,
        _exporter(functions, pods) as port,
        _one_core(),
    ):
        process = prometheus.start(lab, {"fake": [f"127.0.0.1:{port}"]}, _SCRAPE_S)
        client = Prometheus(f"http://127.0.0.1:{process.port}", _TIMEOUT_S)
        say(f"{functions} functions of {pods} pods; waiting for a whole window of scrapes")
        lab.wait_for(lambda: _whole(client, asked), "readings of all functions", 120)
        say(f"{rounds} readings")
        times = [_timed(client, asked) for _ in range(rounds)]
    wall_s, cpu_s = ([t[i] for t in times] for i in (0, 1))
    return {
        "functions": functions,
        "pods": functions * pods,
        "wall_s_median": round(statistics.median(wall_s), 3),
        "wall_s_max": round(max(wall_s), 3),
        "cpu_s_median": round(statistics.median(cpu_s), 3),
        "within_2_s": max(wall_s) <= 2.0,
    }


def _pods(function: int, count: int) -> list[str]:
    return [f"f-{function}-{pod}" for pod in range(count)]


def _whole(client: Prometheus, asked: list[MetricsRequest]) -> bool:
    return all(
        isinstance(r, Reading) for r in read(QueryBatch(client, time.time()), asked, _SCRAPE_S).values()
    )


def _timed(client: Prometheus, asked: list[MetricsRequest]) -> tuple[float, float]:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    found = read(QueryBatch(client, time.time()), asked, _SCRAPE_S)
    passed = time.perf_counter() - wall_s, time.process_time() - cpu_s
    if missing := [r for r in found.values() if isinstance(r, str)]:
        raise LabError(f"{len(missing)} functions were not read: {missing[0]}")
    return passed


@contextmanager
def _one_core() -> Iterator[None]:
    """This process and what it starts meanwhile: the monitor and Prometheus."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _exporter(functions: int, pods: int) -> Iterator[int]:
    here, there = get_context("spawn").Pipe()
    child = get_context("spawn").Process(target=_serve, args=(functions, pods, there), daemon=True)
    child.start()
    try:
        if not here.poll(30):
            raise LabError("the fake gateway did not start")
        yield here.recv()
    finally:
        child.terminate()
        child.join()


def _serve(functions: int, pods: int, told: Connection) -> None:
    """Counters of a gateway and of kubelets, which grow with the time."""
    lines: list[tuple[str, float]] = []
    for i in range(functions):
        name = f'function_name="f-{i}.ns-{i % _NAMESPACES}"'
        lines.append((f'gateway_function_invocation_total{{{name},code="200"}}', 10.0))
        lines.append((f'gateway_function_invocation_total{{{name},code="502"}}', 0.1))
        lines.append((f"gateway_functions_seconds_sum{{{name}}}", 15.0))
        lines.append((f"gateway_functions_seconds_count{{{name}}}", 10.0))
        for pod in _pods(i, pods):
            where = f'namespace="ns-{i % _NAMESPACES}",pod="{pod}",container="function"'
            lines.append((f"container_cpu_usage_seconds_total{{{where}}}", 0.1))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            now_s = time.time()
            body = "".join(f"{name} {rate * now_s:.3f}\n" for name, rate in lines).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """No line a scrape."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.send(server.server_port)
    server.serve_forever()
