"""Settings of the load balancer, and of the HAProxy it drives."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import ClassVar

from surgekit.haproxy.gateway_files import (
    CONTROL,
    FUNCTIONS_MAP,
    OVERFLOW_MAP,
    PLACEMENT,
    PLACEMENT_LOG,
    STATISTICS,
)
from surgekit.kube.api_path import is_name
from surgekit.process.bind import is_place
from surgekit.process.settings import ProcessSettings, SettingsError, setting

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings(ProcessSettings):
    PART: ClassVar[str] = "gateway"

    directory: Path = setting(
        Path("/run/surgekit/haproxy"),
        "shared with HAProxy: its configuration, map and socket",
    )
    listen: str = setting("0.0.0.0:8000", "address and port where HAProxy takes requests")
    functions: int = setting(
        256, "most functions at a time; 6 KB of HAProxy's memory for each of their slots",
        minimum=1, maximum=10000,
    )  # fmt: skip
    functions_per_namespace: int = setting(
        64, "most functions of one namespace at a time; when `functions` are too few, all get equal shares",
        minimum=1, maximum=10000,
    )  # fmt: skip
    slots: int = setting(64, "most pods a function can have", minimum=1, maximum=10000)
    gateway_timeout_s: float = setting(
        60.0, "seconds a request waits for a pod (then 503), and a pod may take to answer (then 504)",
        minimum=0.1, maximum=86400.0,
    )  # fmt: skip
    placement_timeout_s: float = setting(
        1.0, "seconds a request waits for an emergency instance's address; then it waits for a pod",
        minimum=0.01, maximum=60.0,
    )  # fmt: skip
    ingress: str = setting(
        "",
        "HOST:PORT of the cluster's own ingress, which gets all requests that name no function here; "
        "empty: they get 404",
    )
    replicas_service: str = setting(
        "", "NAMESPACE/NAME of the headless Service of the balancer's replicas; empty: there is one replica"
    )
    address: str = setting("", "this pod's address, at which other replicas reach it")
    forward_port: int = setting(
        8001, "where HAProxy takes what other replicas forward", minimum=1, maximum=65535
    )
    replica_port: int = setting(
        8002, "where other replicas read what this one says of itself", minimum=1, maximum=65535
    )
    most_replicas: int = setting(8, "most replicas", minimum=2, maximum=64)
    max_connections: int = setting(
        4000,
        "most clients at a time; each takes two file descriptors",
        minimum=10,
        maximum=1000000,
    )
    connections_per_namespace: int = setting(
        1000,
        "most requests under way for the functions of one namespace, queued ones included; then 429",
        minimum=1,
        maximum=1000000,
    )
    connections_per_client: int = setting(
        2000,
        "most connections of one client address; an ingress in front is one client",
        minimum=1,
        maximum=1000000,
    )

    def __post_init__(self) -> None:
        if self.ingress and not is_place(self.ingress):
            raise SettingsError(f"ingress: {self.ingress!r} is not HOST:PORT")
        if not self.replicas_service:
            return
        namespace, slash, name = self.replicas_service.partition("/")
        if not slash or not is_name(namespace) or not is_name(name):
            raise SettingsError(f"replicas_service: {self.replicas_service!r} is not NAMESPACE/NAME")
        try:
            ip_address(self.address)
        except ValueError:
            raise SettingsError(f"address: {self.address!r} is no address of this pod") from None

    @property
    def control(self) -> Path:
        return self.directory / CONTROL

    @property
    def statistics(self) -> Path:
        return self.directory / STATISTICS

    @property
    def map_file(self) -> Path:
        return self.directory / FUNCTIONS_MAP

    @property
    def overflow_map(self) -> Path:
        return self.directory / OVERFLOW_MAP

    @property
    def placement(self) -> Path:
        return self.directory / PLACEMENT

    @property
    def placement_log(self) -> Path:
        return self.directory / PLACEMENT_LOG

    @property
    def again(self) -> Path:
        """HAProxy's socket for requests that start over."""
        return self.directory / "again.sock"

    @property
    def replicas_map(self) -> Path:
        """Addresses that may forward requests to this replica."""
        return self.directory / "replicas.map"
