"""Settings of the expander."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from surgekit.process.modes import Mode
from surgekit.process.settings import ProcessSettings, setting

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings(ProcessSettings):
    PART: ClassVar[str] = "expander"

    mode: Mode = setting(
        Mode.SHADOW, "off, shadow (answer with every option, log the choice) or enforce (answer with one)"
    )
    catalogue: Path | None = setting(
        None,
        "file with the classes and their prices (YAML, or the FCMA paper's CSV); read again when it changes",
    )
    price_labels: tuple[str, ...] = setting(
        ("surgekit.dev/price-per-hour", "eks-node-viewer/instance-price"),
        "labels or annotations of a node that hold its price per hour where the catalogue has none",
    )
    deadline_s: float = setting(
        0.45,
        "seconds from a request's bytes to the answer; 0 means the cheapest that fits, always",
        minimum=0.0,
        maximum=4.0,
    )
    daemonset_cpu_millis: int = setting(
        0,
        "millicores DaemonSets take of every node; more is assumed where the autoscaler's counts show it",
        minimum=0,
        maximum=1_000_000,
    )
    daemonset_memory_mib: int = setting(
        0, "MiB that DaemonSets take of every node", minimum=0, maximum=1_000_000
    )
    daemonset_pods: int = setting(0, "DaemonSet pods on every node", minimum=0, maximum=1000)
    max_request_mib: int = setting(
        128,
        "MiB of the largest request taken; the autoscaler sends no more than 128",
        minimum=1,
        maximum=1024,
    )
    decisions_kept: int = setting(200, "decisions kept for /explain", minimum=1, maximum=100_000)
    bind: str = setting("0.0.0.0:9443", "address and port of the gRPC service")
    explain_bind: str = setting("127.0.0.1:9444", "address and port of /explain, for client certificates")
    client_names: tuple[str, ...] = setting(
        ("surgekit-viewer",), "common names of the client certificates that may read /explain"
    )
    tls_directory: Path | None = setting(
        None,
        "directory with tls.crt, tls.key, and ca.crt for /explain; none means plaintext, which the "
        "autoscaler refuses",
    )
