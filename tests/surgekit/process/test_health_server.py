"""The pages of a controller, and a real process that serves them."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter

from kwok.ports import answers_ready, free_ports
from kwok.processes import Processes
from surgekit.process.health_server import pages
from tests.paths import ROOT


class Replica:
    def __init__(self, alive: bool = True, missing: str = "", told: Path | None = None) -> None:
        self._alive, self._missing, self._told = alive, missing, told
        self.registry = CollectorRegistry()
        Counter("surgekit_test_rounds", "Rounds", registry=self.registry).inc(3)

    def start(self) -> None:
        self._tell("started")

    def stop(self) -> None:
        self._tell("stopped")

    def alive(self, now_s: float) -> bool:
        return self._alive

    def not_ready(self, now_s: float) -> str:
        return self._missing

    def _tell(self, what: str) -> None:
        if self._told:
            with self._told.open("a") as file:
                file.write(f"{what} {os.getpid()}\n")


@pytest.mark.parametrize(
    ("replica", "livez", "readyz"),
    [
        (Replica(), 200, (200, "ok")),
        (Replica(alive=False), 500, (200, "ok")),
        (Replica(missing="no word of pods"), 200, (503, "no word of pods")),
    ],
)
def test_health(replica: Replica, livez: int, readyz: tuple[int, str]) -> None:
    client = pages(replica).test_client()
    answer = client.get("/readyz")
    assert client.get("/livez").status_code == livez
    assert (answer.status_code, answer.text) == readyz


def test_metrics_are_those_of_the_controller() -> None:
    answer = pages(Replica()).test_client().get("/metrics")
    assert "surgekit_test_rounds_total 3.0" in answer.text
    assert answer.content_type.startswith("text/plain")


@pytest.fixture
def process(tmp_path: Path) -> Iterator[tuple[int, Path, Processes]]:
    """A controller as it is run: its port, what it writes when it starts and stops, and where it runs."""
    told, (port,) = tmp_path / "told", free_ports(1)
    code = (
        "import sys; from pathlib import Path\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.surgekit.process.test_health_server import Replica\n"
        "from surgekit.process.health_server import serve\n"
        "from surgekit.process.settings import ProcessSettings\n"
        f"settings = ProcessSettings(health_bind='127.0.0.1:{port}')\n"
        f"serve(lambda: Replica(told=Path({str(told)!r})), settings, 'surgekit-test')\n"
    )
    processes = Processes(tmp_path)
    processes.start("replica", [sys.executable, "-c", code], ready=lambda: answers_ready(port))
    yield port, told, processes
    processes.stop("replica")


def test_a_process_starts_it_once_in_its_worker_and_stops_it(process: tuple[int, Path, Processes]) -> None:
    _, told, processes = process
    arbiter = processes.find("replica")
    assert arbiter is not None
    processes.stop("replica")
    (started, worker), (stopped, same) = (line.split() for line in told.read_text().splitlines())
    assert (started, stopped) == ("started", "stopped")
    assert worker == same != str(arbiter.pid)


def test_half_sent_requests_do_not_make_kubelets_probes_fail(process: tuple[int, Path, Processes]) -> None:
    """Nor for a moment: kubelet would restart the leader."""
    port, _, _ = process
    with ExitStack() as stack:
        for _ in range(100):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n")
        for _ in range(10):
            assert answers_ready(port, "/livez")
            assert answers_ready(port, "/readyz")
