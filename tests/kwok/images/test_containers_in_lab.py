"""The binaries of the images, as processes: what they promise to a pod."""

from __future__ import annotations

import ctypes
import http.client
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from kwok import images
from kwok.binaries import CONTAINERS, Binaries
from kwok.binaries.toolchain import find_go
from kwok.errors import BinariesError
from kwok.ports import answers_ready, free_ports, get_text
from kwok.waiting import wait_for

pytestmark = pytest.mark.lab

PREFIX = "surgekit_function_server_"


@pytest.fixture(scope="session")
def containers() -> Path:
    try:
        return Binaries().directory(CONTAINERS)
    except BinariesError as error:
        pytest.skip(f"the binaries of containers cannot be had: {error}")


@contextmanager
def function_server(containers: Path, **settings: int) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """One on a free port, with these settings."""
    (port,) = free_ports(1)
    environ = {key.upper(): str(value) for key, value in settings.items()} | {"PORT": str(port)}
    with subprocess.Popen([containers / "function-server"], env=environ) as server:
        try:
            wait_for(lambda: answers_ready(port, "/healthz"), "the function server answers", 60)
            yield port, server
        finally:
            server.kill()


def call(port: int) -> tuple[int, float]:
    """Status and seconds of one request."""
    started_s = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status, time.monotonic() - started_s
    finally:
        connection.close()


def at_once(count: int, port: int) -> list[tuple[int, float]]:
    with ThreadPoolExecutor(count) as callers:
        return sorted(callers.map(lambda _: call(port), range(count)), key=lambda answer: answer[1])


def metrics(port: int) -> dict[str, float]:
    lines = [line for line in get_text(port, "/metrics").splitlines() if not line.startswith("#")]
    return {
        name.removeprefix(PREFIX): float(value) for name, value in (line.rsplit(" ", 1) for line in lines)
    }


def resident_mib(process: subprocess.Popen[bytes]) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) / 1024


def test_binaries_need_no_library(containers: Path) -> None:
    for binary in CONTAINERS.packages:
        assert b"ld-linux" not in (containers / binary).read_bytes()


def test_their_images_are_built(containers: Path) -> None:
    for name in CONTAINERS.packages:
        assert images.build(name) == images.build(name)


def test_requests_take_the_service_time_and_are_counted(containers: Path) -> None:
    with function_server(containers, service_time_ms=100) as (port, _):
        answers = at_once(8, port)
        assert {status for status, _ in answers} == {200}
        assert all(seconds >= 0.1 for _, seconds in answers)
        seen = metrics(port)
    assert seen['requests_total{code="200"}'] == 8
    assert seen["served_seconds_total"] >= 0.8
    assert seen["requests_running"] == seen["requests_waiting"] == 0


def test_requests_beyond_the_concurrency_wait(containers: Path) -> None:
    with function_server(containers, service_time_ms=200, concurrency=2) as (port, _):
        started_s = time.monotonic()
        answers = at_once(6, port)
        took_s = time.monotonic() - started_s
    assert {status for status, _ in answers} == {200}
    assert took_s >= 0.6, "two run at once, so six take three rounds"


def test_requests_beyond_the_queue_are_refused(containers: Path) -> None:
    with (
        ThreadPoolExecutor(2) as callers,
        function_server(containers, service_time_ms=600_000, concurrency=1, queue=1) as (port, _),
    ):
        for name in ("requests_running", "requests_waiting"):
            callers.submit(call, port)  # ends with the server
            wait_for(lambda name=name: metrics(port)[name] == 1, name, 10)  # type: ignore[misc]
        assert [call(port)[0] for _ in range(2)] == [503, 503]
        assert metrics(port)['requests_total{code="503"}'] == 2


def test_memory_is_held(containers: Path) -> None:
    with function_server(containers) as (_, without), function_server(containers, memory_mib=64) as (_, held):
        assert 64 <= resident_mib(held) - resident_mib(without) < 80


def test_cpu_time_is_used(containers: Path) -> None:
    with function_server(containers, service_time_ms=300, cpu_time_ms=200) as (port, server):
        _, seconds = call(port)
        fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
        used_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime, stime: proc(5)
    assert seconds >= 0.3
    assert used_s >= 0.19  # in ticks of 10 ms


def test_running_requests_are_answered_after_sigterm(containers: Path) -> None:
    with function_server(containers, service_time_ms=5000) as (port, server), ThreadPoolExecutor(1) as caller:
        answer = caller.submit(call, port)
        wait_for(lambda: metrics(port)["requests_running"] == 1, "the request runs", 60)
        server.send_signal(signal.SIGTERM)
        assert answer.result()[0] == 200
        assert server.wait(timeout=60) == 0


def test_a_wrong_setting_is_named(containers: Path) -> None:
    done = subprocess.run(
        [containers / "function-server"],
        env={"MEMORY_MIB": "much"}, capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == 'function-server: MEMORY_MIB: "much" is not a whole number >= 0\n'


def test_pause_reaps_orphans_and_ends_on_sigterm(containers: Path) -> None:
    """As process 1 of a pod with a shared process namespace; here as a subreaper."""

    def be_subreaper() -> None:
        ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER survives exec

    # The shell becomes pause, after it started a child whose own child outlives it.
    script = f"(sleep 600 & echo $!) ; exec {containers / 'pause'}"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, preexec_fn=be_subreaper) as pause:  # noqa: PLW1509  # one thread
        try:
            assert pause.stdout is not None
            orphan = int(pause.stdout.readline())
            # The shell has the same pid: its child may be an orphan before it is pause.
            name = Path(f"/proc/{pause.pid}/comm")
            wait_for(lambda: name.read_text() == "pause\n", "the shell becomes pause", 10)
            wait_for(lambda: parent(orphan) == pause.pid, "pause adopts the orphan", 10)
            os.kill(orphan, signal.SIGKILL)
            wait_for(lambda: not Path(f"/proc/{orphan}").exists(), "the orphan is reaped", 10)
            assert pause.poll() is None
            for _ in range(100):  # children that end must not cost it the signal to end
                pause.send_signal(signal.SIGCHLD)
            pause.send_signal(signal.SIGTERM)
            assert pause.wait(timeout=10) == 0
        finally:
            pause.kill()


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("check", ["vet", "test"])
def test_go_accepts_the_sources(check: str, containers: Path) -> None:
    done = subprocess.run(
        [find_go(), check, "./..."],
        cwd=CONTAINERS.module, env=dict(os.environ) | {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
