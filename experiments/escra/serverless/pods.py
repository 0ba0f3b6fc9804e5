"""Pods of a function: made when a request finds none idle, each a container with one process."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from subprocess import Popen

from experiments.escra.node import Node
from experiments.escra.serverless.model import LATEST_S, ServerlessRun
from kwok.ports import free_ports
from limit_allocator.cgroups.container import Gone
from limit_allocator.cgroups.layout import ContainerCgroup
from limit_allocator.cgroups.opening import open_container

__all__ = ["Pod", "Pods", "request"]

_LOOK_S = 0.005


@dataclass(frozen=True, slots=True)
class Pod:
    cgroup: ContainerCgroup
    port: int
    process: Popen[bytes]


class Pods:
    """The pool. `changed` is told all containers after each change, as a controller is by its watch."""

    def __init__(
        self, node: Node, run: ServerlessRun, changed: Callable[[Sequence[ContainerCgroup]], None]
    ) -> None:
        self._node, self._run, self._changed = node, run, changed
        self._limits = run.arm.limits(run.function)
        self._lock = threading.Condition()
        self._present: list[Pod] = []
        self._idle: list[Pod] = []
        self._ports = free_ports(run.function.most_pods)  # of pods that may still be made
        self.started = self.oom_kills = 0

    def cgroups(self) -> list[ContainerCgroup]:
        with self._lock:
            return [pod.cgroup for pod in self._present]

    @contextmanager
    def take(self) -> Iterator[Pod]:
        """A pod for one request: the idle one that was used last, or a new one, or the next that is idle.

        It is not used again if the request fails.
        """
        pod = self._next()
        try:
            yield pod
        except BaseException:
            self._remove([pod])
            raise
        with self._lock:
            self._idle.append(pod)
            self._lock.notify()

    def empty(self) -> None:
        """Remove all. No request is on its way."""
        self._remove(list(self._present))

    def _next(self) -> Pod:
        with self._lock:
            self._lock.wait_for(lambda: self._idle or self._ports)
            if self._idle:
                return self._idle.pop()
            port = self._ports.pop()
        pod = self._start(port)
        deadline_s = time.monotonic() + LATEST_S
        while not _listens(port) and pod.process.poll() is None and time.monotonic() < deadline_s:
            time.sleep(_LOOK_S)
        return pod

    def _start(self, port: int) -> Pod:
        cgroup = self._node.add(self._limits)
        process = self._node.start(cgroup, self._run.function.arguments(port, self._run.seed))
        pod = Pod(cgroup, port, process)
        with self._lock:
            self._present.append(pod)
            self.started += 1
            self._tell()
        return pod

    def _remove(self, pods: Sequence[Pod]) -> None:
        with self._lock:
            self._present = [pod for pod in self._present if pod not in pods]
            self._idle = [pod for pod in self._idle if pod not in pods]
            self._tell()
        for pod in pods:
            kills = self._oom_kills(pod)
            self._node.let_go(pod.cgroup)
            pod.process.kill()
            pod.process.wait()
            self._node.remove(pod.cgroup)
            with self._lock:
                self.oom_kills += kills
                self._ports.append(pod.port)
                self._lock.notify()

    def _tell(self) -> None:
        self._changed([pod.cgroup for pod in self._present])

    def _oom_kills(self, pod: Pod) -> int:
        container = open_container(self._node.hierarchy, pod.cgroup)
        if isinstance(container, Gone):
            return 0
        kills = container.oom_kills()
        container.close()
        return 0 if isinstance(kills, Gone) else kills


def request(pod: Pod, number: int) -> bool:
    """Whether the function has answered this request."""
    connection = http.client.HTTPConnection("127.0.0.1", pod.port, timeout=LATEST_S)
    try:
        connection.request("GET", "/", headers={"X-Request-Number": str(number)})
        return connection.getresponse().status == 200
    finally:
        connection.close()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.2):
        return True
    return False
