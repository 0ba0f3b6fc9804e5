"""Settings of the controller that allots limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from surgekit.process.modes import Mode
from surgekit.process.settings import LeaderSettings, setting

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings(LeaderSettings):
    PART: ClassVar[str] = "limit_allocator"

    mode: Mode = setting(
        Mode.ENFORCE,
        "the most that any DistributedContainer may ask for: off, shadow (watch only) or enforce (its own "
        "mode decides)",
    )
    bind: str = setting("0.0.0.0:8444", "address and port that the node agents connect to (gRPC)")
    tls_directory: Path | None = setting(
        None, "directory with tls.crt, tls.key and ca.crt for that port; none means plaintext, for tests only"
    )
    agent_name: str = setting(
        "surgekit-limit-agent", "common name of the client certificate that agents must show"
    )
    agent_account: str = setting(
        "system:serviceaccount:surgekit-agents:surgekit-limit-agent",
        "user whose tokens agents must show, each bound to its node; empty: believe agents, for tests only",
    )
    tick_s: float = setting(
        0.1, "seconds between two decisions; the paper's report period", minimum=0.02, maximum=10.0
    )
    status_every_s: float = setting(
        10.0,
        "seconds between two writes of a DistributedContainer's status; also the step of its history",
        minimum=1.0,
        maximum=600.0,
    )
    most_per_namespace: int = setting(
        20,
        "DistributedContainers that count in a namespace: the oldest. Others are told in their status",
        minimum=1,
        maximum=1000,
    )
    exclusive_cpus: bool = setting(
        True,
        "whether kubelets may run the static CPU manager: then Guaranteed pods that ask for whole CPUs are "
        "left alone",
    )
