"""Settings of the placement beside each HAProxy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from surgekit.haproxy.gateway_files import FUNCTIONS_MAP, PLACEMENT, PLACEMENT_LOG, STATISTICS
from surgekit.process.settings import ProcessSettings, SettingsError, setting

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings(ProcessSettings):
    PART: ClassVar[str] = "burst_placement"

    health_bind: str = setting("0.0.0.0:8083", "address and port of /livez, /readyz, /metrics")
    directory: Path = setting(
        Path("/run/surgekit/haproxy"), "directory with the sockets, shared with HAProxy and the load balancer"
    )
    controller: str = setting(
        "surgekit-burst-controller.surgekit-system.svc:8445",
        "host:port of the controller; of several addresses only the leader's accepts",
    )
    server_name: str = setting("", "name in the controller's certificate; empty: the controller's host")
    agent_name: str = setting("surgekit-pulselet", "name in the node agents' certificates")
    tls_directory: Path | None = setting(
        Path("/run/surgekit/tls"),
        "holds ca.crt, tls.crt and tls.key; none means plaintext, for tests only",
    )
    look_every_s: float = setting(
        0.25, "seconds between two looks at HAProxy's statistics", minimum=0.05, maximum=1.0
    )
    report_every_s: float = setting(
        1.0, "seconds between two reports to the controller; a step of the filter", minimum=0.1, maximum=1.0
    )
    most_at_once: int = setting(
        512, "requests for an instance that are worked on at once; others wait in the regular queue",
        minimum=1, maximum=10_000,
    )  # fmt: skip

    def __post_init__(self) -> None:
        host, _, port = self.controller.rpartition(":")
        if not host or not port.isdecimal():
            raise SettingsError(f"controller: {self.controller!r} is not host:port")

    @property
    def socket(self) -> Path:
        return self.directory / PLACEMENT

    @property
    def log_socket(self) -> Path:
        return self.directory / PLACEMENT_LOG

    @property
    def statistics(self) -> Path:
        return self.directory / STATISTICS

    @property
    def map_file(self) -> Path:
        return self.directory / FUNCTIONS_MAP
