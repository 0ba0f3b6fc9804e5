"""A private containerd and a node agent, as processes of their own below one directory.

For tests and benches of the burst plane that need real containers and no cluster. What the agent makes
(cgroup, bridge, network namespaces, containerd namespace) has a name of its own, so several nodes fit on one
machine. Needs root.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from kwok.cgroups import trees
from kwok.errors import LabError
from kwok.ports import free_ports
from kwok.real_node.requirements import SEARCH_PATH, why_no_real_node
from surgekit.tls import ensure

__all__ = ["CONTROLLER", "PLACEMENT", "SERVER_NAME", "BurstNode", "why_no_burst_node"]

PLACEMENT, CONTROLLER = "surgekit-burst-placement", "surgekit-burst-controller"
SERVER_NAME = "surgekit-pulselet.surgekit-system.svc"
_PATIENCE_S = 60.0


def why_no_burst_node() -> str | None:
    """Why none can run on this machine; None if one can."""
    return why_no_real_node()


class BurstNode:
    """Use it as a context. `settings` are the agent's."""

    def __init__(self, directory: Path, archives: Sequence[Path], **settings: Any) -> None:
        self.directory, self._archives, self._given = directory, archives, settings
        self.name = f"sb-{secrets.token_hex(3)}"
        self.certificates = directory / "tls"
        self.logs = directory / "container-logs"
        # On tmpfs, and short: it holds mount points of every instance.
        self.run_directory = Path("/run") / self.name
        self.port = self.health_port = 0
        self.agent: subprocess.Popen[bytes] | None = None
        self._containerd: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def socket(self) -> Path:
        return self.run_directory / "containerd.sock"

    def __enter__(self) -> BurstNode:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.run_directory.mkdir(parents=True)
            ensure(self.certificates, [SERVER_NAME], [PLACEMENT, CONTROLLER], datetime.now(UTC))
            self.start_containerd()
            for archive in self._archives:
                self.ctr("images", "import", str(archive))
            self.start_agent()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop_agent()
        self.stop_containerd()
        shutil.rmtree(self.run_directory, ignore_errors=True)
        shutil.rmtree(self.directory / "containerd", ignore_errors=True)

    def start_agent(self, prefix: Sequence[str] = (), **settings: Any) -> None:
        """Start the agent and wait until it is ready; these settings hold until it ends. `prefix`: a command
        that runs it."""
        self.port, self.health_port = self.port or free_ports(1)[0], free_ports(1)[0]
        merged = {
            "node": self.name, "name": self.name, "bind": self.address,
            "health_bind": f"127.0.0.1:{self.health_port}",
            "tls_directory": str(self.certificates), "directory": str(self.run_directory / "burst"),
            "containerd": str(self.socket), "kubelet_namespace": "", "log_directory": str(self.logs),
            "cni_configuration": str(self.directory / "no-cni"), "subnet": _subnet(self.name),
        } | self._given | settings  # fmt: skip
        file = self.directory / "pulselet.yaml"
        file.write_text(json.dumps(merged))  # JSON is YAML
        with (self.directory / "pulselet.log").open("ab") as log:
            self.agent = subprocess.Popen(
                [*prefix, sys.executable, "-m", "surgekit", "serve", "pulselet", "--settings", str(file)],
                env=os.environ | {"PATH": SEARCH_PATH}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._await(self._agent_is_ready, self.agent, "pulselet")

    def stop_agent(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.agent is not None:
            self.agent.send_signal(how)
            self.agent.wait(timeout=_PATIENCE_S)
            self.agent = None

    def instances(self) -> set[str]:
        """Names of all containers that have a cgroup, running or ready."""
        return {
            group.name for tree in trees() if (tree / self.name).is_dir()
            for group in (tree / self.name).iterdir() if group.is_dir()
        }  # fmt: skip

    def said(self) -> str:
        """The agent's log."""
        return (self.directory / "pulselet.log").read_text(errors="replace")

    def ctr(self, *arguments: str) -> str:
        """Run `ctr` in the agent's containerd namespace; its output."""
        argv = ["ctr", "--address", str(self.socket), "--namespace", self.name, *arguments]
        done = subprocess.run(argv, env={"PATH": SEARCH_PATH}, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LabError(f"ctr {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def stop_containerd(self) -> None:
        if self._containerd is not None:
            self._containerd.terminate()
            self._containerd.wait(timeout=_PATIENCE_S)
            self._containerd = None

    def start_containerd(self) -> None:
        root = self.directory / "containerd"
        root.mkdir(exist_ok=True)
        configuration = self.directory / "containerd.toml"
        configuration.write_text(
            f'version = 2\nroot = "{root}"\nstate = "{self.run_directory / "containerd"}"\noom_score = 0\n'
            'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
            f'[grpc]\naddress = "{self.socket}"\n'
            f'[plugins."io.containerd.internal.v1.opt"]\npath = "{root / "opt"}"\n'
        )
        with (self.directory / "containerd.log").open("ab") as log:
            self._containerd = subprocess.Popen(
                ["containerd", "--config", configuration], env=os.environ | {"PATH": SEARCH_PATH},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._await(self._containerd_answers, self._containerd, "containerd")

    def _containerd_answers(self) -> bool:
        try:
            return self.socket.exists() and bool(self.ctr("version"))
        except LabError:
            return False

    def _agent_is_ready(self) -> bool:
        url = f"http://127.0.0.1:{self.health_port}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _await(self, ready: Callable[[], bool], process: subprocess.Popen[bytes], name: str) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while not ready():
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise LabError(f"{name} is not ready; see {self.directory / name}.log")
            time.sleep(0.05)


def _subnet(name: str) -> str:
    """One of many, so that nodes of one machine do not overlap."""
    number = int(name.removeprefix("sb-"), 16)
    return f"10.{211 + number % 40}.{number // 40 % 250}.0/24"
