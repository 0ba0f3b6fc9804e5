"""Settings of the node agent."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import ClassVar

from surgekit.process.settings import ProcessSettings, SettingsError, setting

__all__ = ["Settings"]

_DOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")


@dataclass(frozen=True)
class Settings(ProcessSettings):
    PART: ClassVar[str] = "pulselet"

    node: str = setting("", "name of the node; empty: the host's name")
    bind: str = setting("0.0.0.0:8447", "address and port of the gRPC service")
    tls_directory: Path = setting(Path("/run/surgekit/tls"), "holds ca.crt, tls.crt and tls.key")
    placement_names: tuple[str, ...] = setting(
        ("surgekit-burst-placement",), "names of client certificates that may call Start, End and Watch"
    )
    controller_names: tuple[str, ...] = setting(
        ("surgekit-burst-controller",), "names of client certificates that may call Prepare and Watch"
    )
    name: str = setting(
        "surgekit-burst",
        "names what the agent makes: containerd namespace, cgroup, network namespaces, bridge",
    )
    directory: Path = setting(Path("/run/surgekit/burst"), "on tmpfs: bundles, root file systems, journal")
    share: float = setting(
        0.1, "share of the node's CPU and memory that instances may take", minimum=0.0, maximum=1.0
    )
    cpu_millis: int = setting(0, "CPU that instances may take; 0: the share", minimum=0, maximum=1 << 20)
    memory_mib: int = setting(0, "memory that instances may take; 0: the share", minimum=0, maximum=1 << 24)
    ready_share: float = setting(
        0.5, "share of that memory that frozen containers may take", minimum=0.0, maximum=1.0
    )
    created_mib: int = setting(8, "MiB that a created container counts", minimum=1, maximum=1024)
    runtime: str = setting("runc", "OCI runtime: runc or crun, or a path to one of these")
    containerd: Path = setting(Path("/run/containerd/containerd.sock"), "containerd's socket")
    kubelet_namespace: str = setting(
        "k8s.io",
        "containerd namespace from which images are taken before they are pulled; empty: always pull",
    )
    allowed_images: tuple[str, ...] = setting(
        (), "registries and repositories (registry.example/team/) that images may come from; empty: all"
    )
    pull_timeout_s: float = setting(300.0, "seconds an image may take", minimum=1.0, maximum=3600.0)
    cgroup_mount: Path = setting(Path("/sys/fs/cgroup"), "where the kernel's cgroups are mounted")
    cni_configuration: Path = setting(
        Path("/etc/cni/net.d"), "the node's CNI configuration; if there is none, a bridge of our own is used"
    )
    cni_plugins: tuple[str, ...] = setting(("/opt/cni/bin", "/usr/lib/cni"), "directories of CNI plugins")
    subnet: str = setting("10.211.0.0/16", "addresses of instances on our own bridge")
    networks: int = setting(4, "network namespaces kept ready", minimum=0, maximum=256)
    gateways: tuple[str, ...] = setting(
        (), "networks that may send requests to instances, beside the placements that were seen"
    )
    denied: tuple[str, ...] = setting(
        ("169.254.0.0/16",), "networks that instances cannot reach, beside the node and each other"
    )
    allowed: tuple[str, ...] = setting((), "networks that instances can reach although they are denied")
    nameservers: tuple[str, ...] = setting((), "resolvers of instances; empty: those of the node")
    cluster_domain: str = setting(
        "cluster.local", "domain in which instances look for short names of Services; empty: in none"
    )
    log_directory: Path = setting(
        Path("/var/log/containers"), "where log collectors look; one file a function"
    )
    log_mib: int = setting(8, "MiB of log kept for each function", minimum=1, maximum=1024)
    log_total_mib: int = setting(
        512, "MiB of log kept for all functions, the latest", minimum=1, maximum=1 << 20
    )
    log_kib_s: int = setting(
        256, "KiB of log written for an instance each second", minimum=1, maximum=1 << 20
    )
    lost_after_s: float = setting(
        5.0, "seconds without word from a placement after which its instances end", minimum=1.0, maximum=300.0
    )
    most_instances: int = setting(64, "instances that run at once", minimum=1, maximum=1024)
    drain_s: float = setting(
        300.0, "seconds that running instances have to end after SIGTERM", minimum=0.0, maximum=3600.0
    )

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SettingsError(f"name: {self.name!r} is not a short name of a-z, 0-9 and -")
        for key in ("gateways", "denied", "allowed"):
            for text in getattr(self, key):
                _network(key, text)
        for text in self.nameservers:
            try:
                IPv4Address(text)
            except ValueError as error:
                raise SettingsError(f"nameservers: {text!r} is not an IPv4 address") from error
        if self.cluster_domain and not _DOMAIN.fullmatch(self.cluster_domain):
            raise SettingsError(f"cluster_domain: {self.cluster_domain!r} is not a domain")
        if _network("subnet", self.subnet).num_addresses < 8:
            raise SettingsError(f"subnet: {self.subnet!r} is too small")
        if not self.placement_names or not self.controller_names:
            raise SettingsError("placement_names, controller_names: at least one name each")

    @property
    def node_name(self) -> str:
        return self.node or os.uname().nodename


def _network(key: str, text: str) -> IPv4Network:
    try:
        return IPv4Network(text)
    except ValueError as error:
        raise SettingsError(f"{key}: {text!r} is not an IPv4 network such as 10.0.0.0/16") from error
