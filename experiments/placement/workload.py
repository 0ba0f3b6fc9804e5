"""The workload of `surgekit bench placement` and of the demo: committed before any policy ran on it.

A cluster in use: every node has residents that take a share of it, and from time to time creates another
container, as nodes of a serverless platform do (fig. 3). A probe can learn from nothing else. Then a
function scales out. Everything is drawn from the seed, and both arms of a round get the same draw.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kwok.pods import pod
from surgekit.kube.client import Kube

__all__ = ["Background", "Workload", "fragments", "residents", "scale_out"]

BACKGROUND, SURGE = "background", "surge"


@dataclass(frozen=True)
class Workload:
    nodes: int = 16
    node_cpu: str = "8"
    node_memory: str = "16Gi"
    # Emulating a pod costs the lab about 40 ms of cpu; at 0.5 s the lab itself took a third of the time.
    tau_create_s: float = 1.0
    replicas: int = 200
    cpu_millicores: int = 250
    memory_mib: int = 512
    resident_share: tuple[float, float] = (0.15, 0.45)  # of a node's cpu, uniformly
    creations_every_s: float = 4.0  # on each node, on average (exponential gaps)
    lifetime_s: float = 8.0  # of what is created so
    warm_up_s: float = 60.0  # of background before the scale-out


def residents(kube: Kube, nodes: Sequence[str], workload: Workload, seed: int) -> None:
    """Pods of 100 to 900 millicores with two MiB of memory a millicore, bound to their nodes."""
    draw = random.Random(f"residents/{seed}")
    pods: list[dict[str, Any]] = []
    for node in nodes:
        room = int(float(workload.node_cpu) * 1000 * draw.uniform(*workload.resident_share))
        while room >= 100:
            size = min(room, draw.randrange(100, 1000, 100))
            room -= size
            name = f"resident-{len(pods):04d}"
            pods.append(pod(name, f"{size}m", f"{2 * size}Mi", nodeName=node))
    _create(kube, pods)


class Background:
    """Other tenants' containers, created on the nodes and deleted again, until stopped."""

    def __init__(self, kube: Kube, nodes: Sequence[str], workload: Workload, seed: int) -> None:
        self._kube, self._nodes, self._workload = kube, nodes, workload
        self._draw = random.Random(f"background/{seed}")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="background", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(30)

    def _run(self) -> None:
        gap_s = self._workload.creations_every_s / len(self._nodes)
        alive: deque[tuple[float, str]] = deque()  # (when it ends, name), in that order
        next_s, number = time.monotonic(), 0
        while not self._stopping.is_set():
            now_s = time.monotonic()
            if now_s >= next_s:
                name, node = f"churn-{number:05d}", self._draw.choice(self._nodes)
                _create(self._kube, [pod(name, "50m", "64Mi", nodeName=node)])
                alive.append((next_s + self._workload.lifetime_s, name))
                number += 1
                next_s += self._draw.expovariate(1 / gap_s)
            elif alive and now_s >= alive[0][0]:
                self._kube.delete(f"/api/v1/namespaces/{BACKGROUND}/pods/{alive.popleft()[1]}")
            else:
                self._stopping.wait(min([next_s, *(end_s for end_s, _ in alive)]) - now_s)


def scale_out(kube: Kube, workload: Workload, name: str = "function") -> None:
    """A Deployment that goes from nothing to all its replicas at once."""
    template = pod(name, f"{workload.cpu_millicores}m", f"{workload.memory_mib}Mi")
    template["metadata"] = {"labels": {"app": name}}
    kube.create(
        f"/apis/apps/v1/namespaces/{SURGE}/deployments",
        {
            "metadata": {"name": name},
            "spec": {
                "replicas": workload.replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {k: template[k] for k in ("metadata", "spec")},
            },
        },
    )


def fragments(
    free: dict[str, tuple[float, float]], cpu_millicores: float, memory_bytes: float
) -> dict[str, float]:
    """Free capacity in pieces too small for another such pod: cores, and their share of all free cores.

    Of a node's free capacity, what is left after as many of these pods as still fit is a fragment.
    """
    total = left_over = 0.0
    for cpu, memory in free.values():
        fitting = max(0, int(min(cpu // cpu_millicores, memory // memory_bytes)))
        total += max(cpu, 0.0)
        left_over += max(cpu, 0.0) - fitting * cpu_millicores
    return {"cores": round(left_over / 1000, 3), "share": round(left_over / total, 4) if total else 0.0}


def _create(kube: Kube, pods: list[dict[str, Any]]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda p: kube.create(f"/api/v1/namespaces/{BACKGROUND}/pods", p), pods))
