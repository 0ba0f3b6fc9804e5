"""Ours as shipped: the agent's own process and the controller's core in another, over gRPC with mutual TLS.

Without a cluster: `controller_process` reads from a file what the controller reads from the API server.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from experiments.escra.controller_process import AGENT, NODE
from experiments.escra.limiters import Limiter
from experiments.process_usage import usage
from kwok.errors import LabError
from kwok.ports import free_ports
from kwok.processes import marked_environment
from limit_allocator.allocation.model import Parameters
from limit_allocator.cgroups.container import Gone
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy
from limit_allocator.cgroups.opening import open_container
from surgekit.tls.files import ensure

__all__ = ["Chain"]

_REGISTERED_S = 30.0
_NAMES = ("controller", "agent")
_REPOSITORY = Path(__file__).parents[2]


class Chain(Limiter):
    def __init__(
        self, parameters: Parameters, cpu_us: int, memory_bytes: int, report_period_s: float = 0.1
    ) -> None:
        self._wanted: dict[str, Any] = {
            "name": "bench/application",
            "parameters": asdict(parameters),
            "cpu_us": cpu_us,
            "memory_bytes": memory_bytes,
            "report_period_s": report_period_s,
        }
        self._processes: list[subprocess.Popen[bytes]] = []
        self._began_s = math.nan

    def start(self, hierarchy: Hierarchy, cgroups: Sequence[ContainerCgroup], directory: Path) -> None:
        """Returns when all containers are registered, and the agent has a stream."""
        self._directory, certificates = directory, directory.parent / "certificates"
        ensure(certificates, ["localhost"], [AGENT], datetime.now(UTC))
        of_agent = directory / "agent-tls"
        of_agent.mkdir()
        shutil.copy(certificates / "ca.crt", of_agent / "ca.crt")
        for kind in ("crt", "key"):
            shutil.copy(certificates / f"{AGENT}.{kind}", of_agent / f"tls.{kind}")
        self._status, application = directory / "status.json", directory / "application.json"
        self._application = application
        self.change(cgroups)
        port, health = free_ports(2)
        settings = directory / "agent.yaml"
        settings.write_text(
            yaml.safe_dump(
                {
                    "node": NODE,
                    "controller": f"localhost:{port}",
                    "tls_directory": str(of_agent),
                    "journal": str(directory / "journal"),
                    "cgroup_mount": str(hierarchy.mount),
                    "cgroup_root": hierarchy.root,
                    "period_s": self._wanted["report_period_s"],
                    "health_bind": f"127.0.0.1:{health}",
                    "log_level": "WARNING",
                }
            )
        )
        self._run(directory, "controller", "experiments.escra.controller_process",
                  str(port), str(certificates), str(application), str(self._status))  # fmt: skip
        self._run(directory, "agent", "surgekit", "serve", "limit-agent", "--settings", str(settings))
        self._wait_for(hierarchy, cgroups)
        self._began_s, self._before = time.monotonic(), self._cpu_s()
        said = self._read_status()
        self._received, self._sent = said.get("received_bytes", 0), said.get("sent_bytes", 0)

    def change(self, cgroups: Sequence[ContainerCgroup]) -> None:
        aside = self._application.with_suffix(".part")
        aside.write_text(json.dumps(self._wanted | {"pods": [c.pod_uid for c in cgroups]}))
        aside.replace(self._application)

    def stop(self) -> Mapping[str, Any]:
        lasted_s = time.monotonic() - self._began_s
        used = {
            f"{name}_core_share": round((now - before) / lasted_s, 4)
            for name, now, before in zip(_NAMES, self._cpu_s(), self._before, strict=True)
        }
        said, fault = self._read_status(), self._fault()
        for process in reversed(self._processes):  # the agent first: it writes the original limits back
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20.0)
            process.kill()
            process.wait()
        if fault:
            raise LabError(fault)
        registered_ms = [1e3 * delay_s for delay_s in said["registration_s"]]
        return used | {
            "registration_ms_p99": round(float(np.percentile(registered_ms, 99)), 1)
            if registered_ms
            else None,
            "received_bytes_per_s": round((said["received_bytes"] - self._received) / lasted_s),
            "sent_bytes_per_s": round((said["sent_bytes"] - self._sent) / lasted_s),
        }

    def _run(self, directory: Path, name: str, module: str, *arguments: str) -> None:
        with (directory.parent / f"{name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", module, *arguments],
                    env=marked_environment(directory.parent), cwd=_REPOSITORY,
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )
            )  # fmt: skip

    def _wait_for(self, hierarchy: Hierarchy, cgroups: Sequence[ContainerCgroup]) -> None:
        """Until each container has another quota than its ceiling, which is the application's whole limit."""
        deadline_s, waiting = time.monotonic() + _REGISTERED_S, list(cgroups)
        while True:
            waiting = [c for c in waiting if _quota_us(hierarchy, c) == self._wanted["cpu_us"]]
            if not waiting and self._read_status().get("received_bytes"):
                return
            if fault := self._fault():
                raise LabError(fault)
            if time.monotonic() > deadline_s:
                raise LabError(f"{len(waiting)} of {len(cgroups)} containers have no limit of ours")
            time.sleep(0.02)

    def _fault(self) -> str:
        """Why the run is worth nothing: a process has ended. Empty if none has."""
        ended = [name for name, p in zip(_NAMES, self._processes, strict=True) if p.poll() is not None]
        logs = [(self._directory.parent / f"{name}.log").read_text()[-2000:] for name in ended]
        return "\n".join([f"ended: {', '.join(ended)}", *logs]) if ended else ""

    def _read_status(self) -> dict[str, Any]:
        try:
            return json.loads(self._status.read_text())  # type: ignore[no-any-return]
        except FileNotFoundError:
            return {}

    def _cpu_s(self) -> list[float]:
        return [usage(process.pid).cpu_s for process in self._processes]


def _quota_us(hierarchy: Hierarchy, cgroup: ContainerCgroup) -> int | None:
    container = open_container(hierarchy, cgroup)
    if isinstance(container, Gone):
        return None
    cpu = container.cpu()
    container.close()
    return None if isinstance(cpu, Gone) else cpu.quota_us
