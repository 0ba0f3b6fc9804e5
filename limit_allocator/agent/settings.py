"""Settings of the node agent."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from limit_allocator.cgroups.layout import Hierarchy
from surgekit.process.settings import ProcessSettings, SettingsError, setting

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings(ProcessSettings):
    PART: ClassVar[str] = "limit_agent"

    node: str = setting("", "name of the node; empty: the host's name")
    controller: str = setting(
        "surgekit-limit-allocator.surgekit-system.svc:8444",
        "host:port of the controller; of several addresses only the leader's accepts",
    )
    server_name: str = setting("", "name in the controller's certificate; empty: the controller's host")
    tls_directory: Path = setting(Path("/run/surgekit/tls"), "holds ca.crt, tls.crt and tls.key")
    token_file: Path | None = setting(
        None, "service account token that says which node this is (projected volume); none: send none"
    )
    journal: Path = setting(
        Path("/run/surgekit/limits"), "directory on tmpfs that outlives the agent; the guard shares it"
    )
    cgroup_mount: Path = setting(Path("/sys/fs/cgroup"), "where the kernel's cgroups are mounted")
    cgroup_root: str = setting("", "the kubelet's --cgroup-root, in the driver's spelling")
    period_s: float = setting(0.1, "seconds between two reports", minimum=0.05, maximum=1.0)
    longest_pause_s: float = setting(
        2.0, "seconds after which the kernel may kill a container that waits for memory",
        minimum=0.1, maximum=60.0,
    )  # fmt: skip
    eviction_threshold_mib: int = setting(
        100, "MiB of memory below which the kubelet evicts pods (evictionHard memory.available)",
        minimum=0, maximum=1 << 20,
    )  # fmt: skip
    write_back_after_s: float = setting(
        0.0, "seconds without a controller after which limits are as in the pods' specs; 0: never",
        minimum=0.0, maximum=86400.0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        host, _, port = self.controller.rpartition(":")
        if not host or not port.isdecimal():
            raise SettingsError(f"controller: {self.controller!r} is not host:port")
        if ".." in Path(self.cgroup_root).parts:
            raise SettingsError(f"cgroup_root: {self.cgroup_root!r} leads out of the cgroup mount")

    @property
    def node_name(self) -> str:
        return self.node or os.uname().nodename

    @property
    def hierarchy(self) -> Hierarchy:
        return Hierarchy(self.cgroup_mount, self.cgroup_root)
