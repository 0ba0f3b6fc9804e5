"""Services and limits on this machine's cgroups."""

from __future__ import annotations

import http.client
import os
import subprocess
import time
from collections.abc import Iterator

import pytest

from experiments.escra.applications import APPLICATIONS
from experiments.escra.arms import ARMS, sums
from experiments.escra.bench import limiter_of
from experiments.escra.limiters import AutopilotLimits
from experiments.escra.node import Node, why_not
from experiments.escra.running import Running, running
from kwok.binaries import MICROSERVICE
from kwok.binaries.toolchain import find_go
from kwok.waiting import wait_for
from limit_allocator.cgroups.container import Container, Limits
from limit_allocator.cgroups.opening import open_container

pytestmark = pytest.mark.lab
MIB = 1 << 20
MEDIA = APPLICATIONS["media"]
PEAKS = {service.name: {"cores": 0.1, "mib": service.base_mib + 60.0} for service in MEDIA.services}


@pytest.fixture
def node() -> Iterator[Node]:
    if reason := why_not():
        pytest.skip(reason)
    with Node.temporary() as node:
        yield node


@pytest.mark.parametrize("check", ["vet", "test"])
def test_the_services_sources(check: str) -> None:
    environ = dict(os.environ) | {"GOWORK": "off", "GOFLAGS": "", "CGO_ENABLED": "0"}
    done = subprocess.run(
        [find_go(), check, "./..."],
        cwd=MICROSERVICE.module,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def answer(here: Running) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", here.door, timeout=30)
    connection.request("GET", "/")
    status = connection.getresponse().status
    connection.close()
    return status


def limits_of(node: Node, here: Running) -> dict[str, Limits]:
    found = {}
    for name, cgroup in here.cgroups.items():
        container = open_container(node.hierarchy, cgroup)
        assert isinstance(container, Container)
        limits = container.limits()
        assert isinstance(limits, Limits)
        found[name] = limits
        container.close()
    return found


def test_a_request_passes_through_all_services_and_a_killed_one_comes_back(node: Node) -> None:
    with running(node, MEDIA, ARMS["static_1_5"].limits(PEAKS), 1) as here:
        assert here.wait_until_ready()
        assert answer(here) == 200
        tree = node.hierarchy.tree("memory")
        processes = [(tree / c.path / "cgroup.procs").read_text().split() for c in here.cgroups.values()]
        assert [len(pids) for pids in processes] == [1] * 7
        here.kill("storage")
        assert answer(here) == 502

        def restarted() -> bool:
            here.revive(time.monotonic())
            return here.restarts == 1

        wait_for(restarted, "a restart")
        wait_for(lambda: answer(here) == 200, "an answer")
    assert not any((tree / cgroup.path).exists() for cgroup in here.cgroups.values())


def test_ours_limits_all_containers_within_the_sum_and_writes_back(node: Node) -> None:
    arm = ARMS["ours_1_5"]
    cpu_us, memory_bytes = sums(PEAKS, arm.factor)
    limiter = limiter_of(arm, cpu_us, memory_bytes)
    with running(node, MEDIA, arm.limits(PEAKS), 1) as here:
        assert here.wait_until_ready()
        before = limits_of(node, here)
        limiter.start(node.hierarchy, list(here.cgroups.values()), node.clear("limiter"))
        limited = limits_of(node, here)
        assert all(0 < (limits.quota_us or 0) < cpu_us for limits in limited.values())
        limiter.stop()
        assert limits_of(node, here) == before


def test_limits_that_learn_begin_with_what_the_profile_saw(node: Node) -> None:
    limiter = AutopilotLimits(5.0, [([20_000.0] * 100, [64.0 * MIB] * 100)])
    cgroup = node.add(Limits(100_000, 0, 1024 * MIB))
    limiter.start(node.hierarchy, [cgroup], node.clear("limiter"))
    container = open_container(node.hierarchy, cgroup)
    assert isinstance(container, Container)
    limits = container.limits()
    container.close()
    limiter.stop()
    node.remove(cgroup)
    assert isinstance(limits, Limits)
    assert 20_000 <= (limits.quota_us or 0) < 100_000
    assert 64 * MIB <= (limits.memory_bytes or 0) < 1024 * MIB
