"""An application that runs: one process a service, each in a container of its own."""

from __future__ import annotations

import contextlib
import http.client
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from experiments.escra.applications import Application, Service
from experiments.escra.node import Node
from kwok.ports import free_ports
from limit_allocator.cgroups.container import Gone, Limits
from limit_allocator.cgroups.layout import ContainerCgroup
from limit_allocator.cgroups.opening import open_container

__all__ = ["Running", "running"]

# A killed container begins again after so long. A kubelet waits longer from the second time on (10 s, 20 s
# and so on), which would be worse for the arms whose containers are killed.
_RESTART_S = 1.0
_READY_S = 15.0


@dataclass
class _Process:
    arguments: list[str]
    running: subprocess.Popen[bytes]
    ended_s: float | None = None


@dataclass
class Running:
    node: Node
    application: Application
    ports: Mapping[str, int]
    cgroups: dict[str, ContainerCgroup]
    restarts: int = 0
    _processes: dict[str, _Process] = field(default_factory=dict)

    @property
    def door(self) -> int:
        """The port for requests from outside."""
        return self.ports[self.application.services[0].name]

    def start(self, seed: int) -> None:
        for number, service in enumerate(self.application.services):
            arguments = _arguments(service, self.ports, 1000 * seed + number)
            process = self.node.start(self.cgroups[service.name], arguments)
            self._processes[service.name] = _Process(arguments, process)

    def revive(self, now_s: float) -> None:
        """Start ended processes again, as a kubelet does."""
        for name, process in self._processes.items():
            if process.running.poll() is None:
                continue
            if process.ended_s is None:
                process.ended_s = now_s
            elif now_s - process.ended_s >= _RESTART_S:
                process.running = self.node.start(self.cgroups[name], process.arguments)
                process.ended_s = None
                self.restarts += 1

    def wait_until_ready(self) -> bool:
        """False if some service does not listen in time: with its limits, perhaps it cannot."""
        deadline_s = time.monotonic() + _READY_S
        missing = set(self.ports.values())
        while missing and time.monotonic() < deadline_s:
            missing = {port for port in missing if not _listens(port)}
            self.revive(time.monotonic())
            time.sleep(0.02)
        return not missing

    def kill(self, name: str) -> None:
        """As the kernel kills for memory."""
        self._processes[name].running.kill()

    def oom_kills(self) -> int:
        """Processes that the kernel has killed for memory in these containers."""
        kills = 0
        for cgroup in self.cgroups.values():
            container = open_container(self.node.hierarchy, cgroup)
            if not isinstance(container, Gone):
                count = container.oom_kills()
                kills += 0 if isinstance(count, Gone) else count
                container.close()
        return kills

    def stop(self) -> None:
        for name, process in self._processes.items():
            self.node.let_go(self.cgroups[name])
            process.running.send_signal(signal.SIGKILL)
        for process in self._processes.values():
            process.running.wait()
        for cgroup in self.cgroups.values():
            self.node.remove(cgroup)


@contextlib.contextmanager
def running(
    node: Node, application: Application, limits: Mapping[str, Limits], seed: int
) -> Iterator[Running]:
    """Make containers with these limits and start the services."""
    names = [service.name for service in application.services]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    found = Running(node, application, ports, {name: node.add(limits[name]) for name in names})
    try:
        found.start(seed)
        yield found
    finally:
        found.stop()


def _arguments(service: Service, ports: Mapping[str, int], seed: int) -> list[str]:
    return [
        f"-port={ports[service.name]}",
        f"-cpu-us={service.cpu_us}",
        f"-base-mib={service.base_mib}",
        f"-request-kib={service.request_kib}",
        f"-garbage-mib={service.garbage_mib}",
        f"-calls={service.calls_by_port(dict(ports))}",
        f"-seed={seed}",
    ]


def _listens(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=0.2)
    try:
        connection.connect()
    except OSError:
        return False
    finally:
        connection.close()
    return True
