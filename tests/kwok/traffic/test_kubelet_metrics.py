"""The figures of the kubelets, as text and over TLS on a loopback address for each node."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kwok.errors import TrafficError
from kwok.ports import free_ports
from kwok.traffic.kubelet_metrics import KubeletMetrics, PodUsage, listen, resource_metrics, server_context
from surgekit.tls import ensure

BUSY = PodUsage("shop", "busy", "app", cpu_seconds_total=12.25, memory_bytes=64 << 20, started_s=1000.5)
NEW = PodUsage("shop", "new", "app", cpu_seconds_total=0.0, memory_bytes=32 << 20, started_s=1099.0)
Series = dict[tuple[str, str], tuple[float, float | None]]


def series(text: str) -> Series:
    """(metric, pod) -> (value, timestamp)."""
    return {
        (s.name, s.labels.get("pod", "")): (s.value, float(s.timestamp) if s.timestamp else None)
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def test_the_text_says_what_metrics_server_reads() -> None:
    assert series(resource_metrics([BUSY, NEW], 1100.125).decode()) == {
        ("container_cpu_usage_seconds_total", "busy"): (12.25, 1100.125),
        ("container_cpu_usage_seconds_total", "new"): (0.001, 1100.125),
        ("container_memory_working_set_bytes", "busy"): (64 << 20, 1100.125),
        ("container_memory_working_set_bytes", "new"): (32 << 20, 1100.125),
        ("container_start_time_seconds", "busy"): (1000.5, None),
        ("container_start_time_seconds", "new"): (1099.0, None),
        ("node_cpu_usage_seconds_total", ""): (0.001 + 12.25 + 0.001, 1100.125),
        ("node_memory_working_set_bytes", ""): ((96 << 20) + 1, 1100.125),
    }


def test_labels_and_milliseconds_are_as_the_kubelet_writes_them() -> None:
    assert (
        b'container_cpu_usage_seconds_total{container="app",namespace="shop",pod="busy"} 12.25 1100125\n'
        in resource_metrics([BUSY], 1100.125)
    )


def test_an_idle_node_is_there_too() -> None:
    found = series(resource_metrics([], 1.0).decode())
    assert all(value > 0 for value, _ in found.values())
    assert {name for name, _ in found} == {"node_cpu_usage_seconds_total", "node_memory_working_set_bytes"}


@pytest.mark.parametrize(
    ("cpu_s", "memory_bytes", "said"),
    [(-1.0, 1, "cpu_seconds_total is -1.0"), (float("nan"), 1, "nan"), (0.0, 0, "memory_bytes is 0")],
)
def test_figures_that_cannot_be_are_told(cpu_s: float, memory_bytes: int, said: str) -> None:
    with pytest.raises(TrafficError, match=f"shop/p: .*{said}"):
        PodUsage("shop", "p", "app", cpu_s, memory_bytes, 0.0)


class Fixed:
    def usage(self, node: str) -> Sequence[PodUsage]:
        return {"node-0": [BUSY], "node-1": [NEW]}[node]


def test_the_address_that_was_dialled_says_which_node(tmp_path: Path) -> None:
    nodes = {"127.1.0.0": "node-0", "127.1.0.1": "node-1"}
    ensure(tmp_path, [*nodes, "127.1.0.9"], [], datetime.now(UTC))
    (port,) = free_ports(1)
    trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))

    def get(address: str, paths: Sequence[str]) -> list[tuple[int, str]]:
        """One connection, kept open over several requests, as metrics-server's are."""
        connection = http.client.HTTPSConnection(address, port, timeout=5, context=trust)
        answers = []
        for path in paths:
            connection.request("GET", path)
            answer = connection.getresponse()
            answers.append((answer.status, answer.read().decode()))
        connection.close()
        return answers

    async def ask() -> list[list[tuple[int, str]]]:
        metrics = KubeletMetrics(Fixed(), nodes, server_context(tmp_path), clock=lambda: 1100.0)
        path = "/metrics/resource"
        wanted = (("127.1.0.0", [path, path]), ("127.1.0.1", [path, "/pods"]), ("127.1.0.9", [path]))
        async with metrics.serving(listen(port)):
            answers = [await asyncio.to_thread(get, *question) for question in wanted]
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.to_thread(get, "127.1.0.5", [path])
        return answers

    first, second, stranger = asyncio.run(ask())
    assert first == [(200, resource_metrics([BUSY], 1100.0).decode())] * 2
    assert second == [
        (200, resource_metrics([NEW], 1100.0).decode()),
        (404, "only GET /metrics/resource is served\n"),
    ]
    assert stranger == [(404, "no node has the address 127.1.0.9\n")]
