"""A lab: an emulated cluster, its processes, and its directory.

If its creator dies half-way, nothing is left running (`kwok.watchdog`). Labs run side by side: everything
of a lab is in its directory and on its own ports.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from kwok import cluster, nodes
from kwok.binaries import CORE, Binaries
from kwok.errors import LabError
from kwok.hpa_loops import checked_time_factor
from kwok.network import door
from kwok.network_namespace import has_network
from kwok.places import labs_directory
from kwok.ports import answers_ready, free_ports
from kwok.processes import Process, Processes, take_down
from kwok.scenario import Scenario
from kwok.waiting import wait_for
from kwok.watchdog import Watchdog
from surgekit.kube.client import ApiError, Kube, KubeUnreachable

__all__ = ["Lab"]

_FACTS, _SCENARIO = "lab.json", "scenario.json"
SCHEDULER = "kube-scheduler"
NODE_MODEL = "node-model"


class Lab:
    """A running emulated cluster. Create it with `Lab.up`, `Lab.open` or `Lab.temporary`."""

    def __init__(self, directory: Path, binaries: Binaries) -> None:
        self.name = directory.name
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"
        self.binaries = binaries
        self.kube = Kube.connect(self.kubeconfig)
        self.processes = Processes(directory)

    @classmethod
    def up(
        cls,
        name: str,
        instant_pods: bool = False,
        prepare: Callable[[Lab], object] | None = None,
        time_factor: float = 1.0,
        own_network: bool = False,
    ) -> Lab:
        """Start a lab that outlives this process, and run `prepare(lab)`.

        With `instant_pods`, pods are Ready as soon as they are bound, and no node model is needed. With a
        `time_factor` (1 to 4) everything runs so many times as fast as nominal. With `own_network`, real
        nodes may join (`kwok.real_node`).
        """
        lab, watchdog = cls._create(name, instant_pods, time_factor, own_network)
        try:
            if prepare:
                prepare(lab)
        except BaseException:
            lab.down()
            watchdog.dismiss("down")
            raise
        watchdog.dismiss("ready")
        return lab

    @classmethod
    def open(cls, name: str) -> Lab:
        """Connect to a running lab."""
        directory = _directory(name)
        if not (directory / _FACTS).exists():
            raise LabError(f"there is no lab {name!r} in {directory.parent}; `surgekit lab up` makes one")
        lab = cls(directory, Binaries())
        try:
            lab.kube.get("/version")
        except KubeUnreachable as error:
            raise LabError(f"lab {name!r} is broken: {error}; `surgekit lab down` clears it away") from error
        return lab

    @classmethod
    @contextmanager
    def temporary(
        cls,
        prefix: str = "tmp",
        instant_pods: bool = False,
        time_factor: float = 1.0,
        own_network: bool = False,
    ) -> Iterator[Lab]:
        """A lab for a `with` block. It ends with this process, however that ends."""
        name = f"{prefix}-{secrets.token_hex(3)}"
        lab, watchdog = cls._create(name, instant_pods, time_factor, own_network)
        try:
            yield lab
        finally:
            lab.down()
            watchdog.dismiss("down")

    @classmethod
    def _create(
        cls, name: str, instant_pods: bool, time_factor: float, own_network: bool
    ) -> tuple[Lab, Watchdog]:
        directory = _directory(name)
        checked_time_factor(time_factor)
        binaries = Binaries()
        for group in CORE:  # first, because a build may take minutes
            binaries.directory(group)
        directory.parent.mkdir(parents=True, exist_ok=True)
        try:
            directory.mkdir()
        except FileExistsError:
            raise LabError(
                f"lab {name!r} is there already ({directory}); `surgekit lab down` first"
            ) from None
        watchdog = Watchdog(directory)
        try:
            if own_network:
                from kwok.network import bridge  # noqa: PLC0415  # pyroute2 takes half a second to import

                bridge.create(directory)
                door.start(directory)
            cluster.create(directory, binaries, instant_pods, time_factor)
            facts = {"instant_pods": instant_pods, "time_factor": time_factor}
            (directory / _FACTS).write_text(json.dumps(facts))
            return cls(directory, binaries), watchdog
        except BaseException:
            take_down(directory)
            watchdog.dismiss("down")
            raise

    @staticmethod
    def directory_of(name: str) -> Path:
        return _directory(name)

    @staticmethod
    def names() -> list[str]:
        """The labs on this machine, complete or broken."""
        return sorted(d.name for d in labs_directory().glob("*") if d.is_dir())

    @staticmethod
    def remove(name: str) -> bool:
        """Remove a lab by name, whatever its state; False if there is none."""
        directory = _directory(name)
        there = directory.exists()
        take_down(directory)
        return there

    def down(self) -> None:
        take_down(self.directory)

    def add_nodes(
        self,
        count: int,
        *,
        cpu: str = "8",
        memory: str = "16Gi",
        pods: int = 110,
        prefix: str = "node",
        timeout_s: float = 120.0,
        kubelet_port: int | None = None,
        allocatable_cpu: str | None = None,
        labels: dict[str, str] | None = None,
    ) -> list[str]:
        """Add emulated nodes, wait until pods can be scheduled on them, and return their names."""
        shape = nodes.NodeShape(
            capacity={"cpu": cpu, "memory": memory, "pods": str(pods)},
            allocatable={"cpu": allocatable_cpu} if allocatable_cpu else {},
            labels=labels or {},
            kubelet_port=kubelet_port,
        )
        return nodes.add_nodes(self.kube, count, shape, prefix, timeout_s)

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        ready: Callable[[], bool] | None = None,
        timeout_s: float = 90.0,
        port: int | None = None,
    ) -> Process:
        """Start a process that belongs to the lab; logs go to `logs/<name>.log`."""
        return self.processes.start(name, argv, env=env, ready=ready, timeout_s=timeout_s, port=port)

    def stop(self, name: str) -> None:
        self.processes.stop(name)

    def kill(self, name: str) -> None:
        """SIGKILL, for fault tests."""
        self.processes.kill(name)

    def start_scheduler(
        self, config: Mapping[str, Any] | None = None, name: str = SCHEDULER, kubeconfig: Path | None = None
    ) -> Process:
        """Start the stock kube-scheduler with `config` (profiles, extenders ...) and wait for its caches.

        Its health and metrics are served over HTTPS on the returned process's port.
        """
        # The QPS must be raised in the file: a configuration file overrides the flags, and its
        # default of 50 binds 50 pods a second whatever the scheduler could do.
        content = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            **(config or {}),
            "clientConnection": {
                "qps": 5000,
                "burst": 10000,
                **(config or {}).get("clientConnection", {}),
                "kubeconfig": str(kubeconfig or self.kubeconfig),
            },
        }
        file = self.directory / f"{name}.yaml"
        file.write_text(yaml.safe_dump(content))
        port = self.free_port()
        argv: list[str | Path] = [
            self.binaries.path("kube-scheduler"),
            f"--config={file}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.directory / 'certs' / name}",
            "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
        ]
        return self.start(name, argv, ready=lambda: answers_ready(port, tls=True), port=port)

    def stop_scheduler(self, name: str = SCHEDULER) -> None:
        self.stop(name)

    def start_node_model(self, scenario: Scenario) -> Process:
        """Start the process that gives this lab's nodes the speeds of `scenario`."""
        file = self.directory / _SCENARIO
        file.write_text(scenario.started(time.time()).to_json())
        ready = self.directory / f"{NODE_MODEL}.ready"
        ready.unlink(missing_ok=True)
        argv: list[str | Path] = [
            sys.executable, "-m", "kwok.node_model_process",
            "--kubeconfig", self.kubeconfig, "--scenario", file, "--ready-file", ready,
        ]  # fmt: skip
        return self.start(NODE_MODEL, argv, ready=ready.exists)

    @property
    def scenario(self) -> Scenario:
        """The node model's scenario; `tau_create_s(node, time.time() - scenario.epoch_s)` is the current
        speed."""
        return Scenario.load(self.directory / _SCENARIO)

    @property
    def time_factor(self) -> float:
        """How many times as fast as nominal this lab runs."""
        return float(json.loads((self.directory / _FACTS).read_text())["time_factor"])

    def account_kubeconfig(self, namespace: str, service_account: str) -> Path:
        """A kubeconfig of this service account, so that a part runs with its own rights."""
        target = self.directory / "accounts" / f"{namespace}.{service_account}"
        return cluster.account_kubeconfig(self.kube, self.kubeconfig, namespace, service_account, target)

    def apply(self, path: Path) -> str:
        """`kubectl apply --server-side` of a manifest or a kustomize directory; returns its output.

        Waits until the kinds it defines are served. Before that, their objects are refused, and a deleted
        definition stays for minutes: kube-apiserver (1.36.3, crd_finalizer.go) cannot list its objects yet
        and retries with a doubling back-off.
        """
        said = self.kubectl("apply", "--server-side", "-k" if _is_kustomization(path) else "-f", path)
        for name in re.findall(r"(?m)^customresourcedefinition\.apiextensions\.k8s\.io/(\S+)", said):
            self.wait_for(partial(self._serves, name), f"{name} is served")
        return said

    def _serves(self, definition: str) -> bool:
        found = self.kube.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}")
        # Before that, one of the same name that was just deleted may still answer.
        conditions = found["status"]["conditions"] or ()  # null at first
        if not any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            return False
        spec = found["spec"]
        version = next(v["name"] for v in spec["versions"] if v["served"])
        try:
            # Without a limit: while its watch cache is not up, kube-apiserver answers limited lists from etcd
            # and others with 429 (KEP-4568).
            self.kube.get(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}")
        except ApiError as error:
            if error.code not in (404, 429, 503):  # not yet known, or its storage is not yet up
                raise
            return False
        return True

    def kubectl(self, *arguments: str | Path) -> str:
        done = subprocess.run(
            [self.binaries.path("kubectl"), "--kubeconfig", self.kubeconfig, *arguments],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        if done.returncode != 0:
            raise LabError(f"kubectl {' '.join(map(str, arguments))}: {done.stderr.strip()}")
        return done.stdout

    def wait_for(self, condition: Callable[[], object], what: str, timeout_s: float = 90.0) -> None:
        """Poll until `condition()` holds; a missing field or object means "not yet"."""
        wait_for(condition, f"lab {self.name}: {what}", timeout_s)

    def free_port(self) -> int:
        """A free port that was not handed out before; 127.0.0.1 reaches it from outside the lab, too."""
        ports = free_ports(1)
        if has_network(self.directory):
            door.open_ports(self.directory, ports)
        return ports[0]


def _directory(name: str) -> Path:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?", name):
        raise LabError(f"lab name {name!r} must be lower-case letters, digits and dashes, at most 42")
    return labs_directory() / name


def _is_kustomization(path: Path) -> bool:
    return path.is_dir() and any((path / f).exists() for f in ("kustomization.yaml", "kustomization.yml"))
