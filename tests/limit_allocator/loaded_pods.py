"""Pods on a real node whose load a test changes, and what the kernel says of their limits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from kwok.cgroups import cgroup_name
from kwok.lab import Lab
from limit_allocator.cgroups.container import Container, Gone
from limit_allocator.cgroups.layout import Hierarchy, find
from limit_allocator.cgroups.opening import open_container
from tests.kwok.real_node.real_pods import create, tool_pod, wait_until_ready

__all__ = ["application", "follow_need_and_give_back", "limits", "load", "quota_cores", "start_pods"]

Json = dict[str, Any]
MIB = 1 << 20
IDLE_CORES, BUSY_CORES = 0.3, 0.8  # limits of a container that does nothing, and of one that spins
PYTHON = str(Path(sys.base_prefix) / "bin" / "python3")
APPLICATION = {"app.kubernetes.io/part-of": "shop"}
DISTRIBUTED_CONTAINERS = "/apis/surgekit.dev/v1alpha1/namespaces/{}/distributedcontainers"

# Reads commands from a file: how many cores to use in threads, and how much memory to hold.
LOAD = """
import mmap, os, subprocess, sys, time
held, spinning, seen = [], [], ""
while True:
    try:
        said = open("/dev/shm/load").read()
    except FileNotFoundError:
        said = ""
    if said != seen and said.endswith("!"):
        seen = said
        cores, mebibytes = map(int, said[:-1].split())
        for process in spinning: process.kill()
        spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
        while len(held) < mebibytes:
            held.append(mmap.mmap(-1, 1 << 20)); held[-1].write(b"x" * (1 << 20)); time.sleep(0.01)
        del held[mebibytes:]
    time.sleep(0.05)
"""


def application(lab: Lab, namespace: str, cpu: str, memory: str, mode: str = "enforce") -> None:
    lab.kube.create(
        DISTRIBUTED_CONTAINERS.format(namespace),
        {
            "apiVersion": "surgekit.dev/v1alpha1",
            "kind": "DistributedContainer",
            "metadata": {"name": "shop"},
            "spec": {
                "selector": {"matchLabels": APPLICATION}, "cpu": cpu, "memory": memory, "mode": mode,
                "parameters": {"floorBytes": 16 * MIB},
            },
        },
    )  # fmt: skip


def shop(lab: Lab, namespace: str) -> Json:
    status: Json = lab.kube.get(f"{DISTRIBUTED_CONTAINERS.format(namespace)}/shop").get("status") or {}
    return status


def pod(name: str, cpu: str, memory: str) -> Json:
    """It asks for less than its limits: a Guaranteed pod keeps its limit as its ceiling."""
    resources = {"limits": {"cpu": cpu, "memory": memory}, "requests": {"cpu": "10m", "memory": "16Mi"}}
    made = tool_pod(name, "real-0", command=[PYTHON, "-c", LOAD], resources=resources)
    made["metadata"]["labels"] |= APPLICATION
    return made


def load(lab: Lab, namespace: str, name: str, cores: int, mebibytes: int) -> None:
    """Change what a pod does."""
    write = f"printf '{cores} {mebibytes}!' > /dev/shm/load"
    lab.kubectl("exec", "-n", namespace, name, "--", "/usr/bin/bash", "-c", write)


def cgroup(lab: Lab, found: Json) -> Container:
    """The container of a pod, as its node's kernel has it."""
    hierarchy = Hierarchy(root=f"{cgroup_name(lab.directory)}/real-0")
    (status,) = found["status"]["containerStatuses"]
    wanted = status["containerID"].rpartition("/")[2]
    (only,) = [c for c in find(hierarchy) if c.container_id == wanted]
    opened = open_container(hierarchy, only)
    assert not isinstance(opened, Gone)
    return opened


def quota_cores(container: Container) -> float:
    seen = container.cpu()
    assert not isinstance(seen, Gone)
    return (seen.quota_us or 0) / seen.period_us


def limit_mib(container: Container) -> float:
    seen = container.memory()
    assert not isinstance(seen, Gone)
    return (seen.limit_bytes or 0) / MIB


def limits(container: Container) -> tuple[float, float]:
    """In cores and MiB."""
    return round(quota_cores(container), 2), limit_mib(container)


def start_pods(lab: Lab, namespace: str) -> dict[str, Container]:
    """An application of two pods, whose authors let each have half of it; containers by the pods' names."""
    # Until its status says how high ceilings may be, pods keep their authors' limits.
    application(lab, namespace, cpu="1500m", memory="600Mi")
    lab.wait_for(lambda: "ceilings" in shop(lab, namespace), "ceilings in the status")
    for name in ("a", "b"):
        create(lab, namespace, pod(name, "750m", "300Mi"))
    pods = {name: wait_until_ready(lab, namespace, name) for name in ("a", "b")}
    for each in pods.values():
        (spec,) = each["spec"]["containers"]
        assert spec["resources"]["limits"] == {"cpu": "1500m", "memory": "600Mi"}, "the ceiling"
        assert spec["resources"]["requests"] == {"cpu": "10m", "memory": "16Mi"}
    return {name: cgroup(lab, each) for name, each in pods.items()}


def follow_need_and_give_back(lab: Lab, namespace: str) -> None:
    """Limits follow use within the application's limit; without the application all is as before."""
    pods = start_pods(lab, namespace)
    a, b = pods.values()

    lab.wait_for(
        lambda: quota_cores(a) < IDLE_CORES and quota_cores(b) < IDLE_CORES, "idle containers have little CPU"
    )
    load(lab, namespace, "a", cores=1, mebibytes=0)
    lab.wait_for(lambda: quota_cores(a) > BUSY_CORES, "the quota follows the load")
    lab.wait_for(lambda: limit_mib(b) < 200, "unused memory is reclaimed")
    assert quota_cores(a) + quota_cores(b) <= 1.5
    load(lab, namespace, "a", cores=0, mebibytes=0)
    lab.wait_for(lambda: quota_cores(a) < IDLE_CORES, "the quota falls when the load has gone")

    load(lab, namespace, "b", cores=0, mebibytes=420)  # more than its author's limit
    lab.wait_for(lambda: limit_mib(b) > 420, "the limit grows with what the container holds")
    assert b.oom_kills() == 0
    assert limit_mib(a) + limit_mib(b) <= 600
    (status,) = lab.kube.get(f"/api/v1/namespaces/{namespace}/pods/b")["status"]["containerStatuses"]
    assert status["restartCount"] == 0
    load(lab, namespace, "b", cores=0, mebibytes=0)

    lab.wait_for(
        lambda: any(
            c["type"] == "Enforced" and c["status"] == "True" for c in shop(lab, namespace)["conditions"]
        ),
        "the status says that limits are enforced",
    )
    lab.kube.delete(f"{DISTRIBUTED_CONTAINERS.format(namespace)}/shop")
    lab.wait_for(lambda: [limits(c) for c in (a, b)] == [(0.75, 300)] * 2, "the authors' limits are back")
    for name in pods:
        (spec,) = lab.kube.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["spec"]["containers"]
        assert spec["resources"]["limits"] == {"cpu": "750m", "memory": "300Mi"}
