"""Settings of the burst plane's controller."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from burst_plane.preparing import Sizing
from surgekit.process.bind import is_place
from surgekit.process.modes import Mode
from surgekit.process.settings import LeaderSettings, SettingsError, setting

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings(LeaderSettings):
    PART: ClassVar[str] = "burst_controller"

    mode: Mode = setting(
        Mode.ENFORCE,
        "the most that any BurstFunction may ask for: off, shadow or enforce (its own mode decides)",
    )
    bind: str = setting("0.0.0.0:8445", "address and port that placements connect to (gRPC)")
    tls_directory: Path | None = setting(
        None, "directory with tls.crt, tls.key and ca.crt for that port; none means plaintext, for tests only"
    )
    client_tls_directory: Path | None = setting(
        None, "the same for calls to node agents, with a client certificate"
    )
    placement_name: str = setting(
        "surgekit-burst-placement", "common name of the client certificate that placements must show"
    )
    agent_name: str = setting("surgekit-pulselet", "name in the node agents' certificates")
    agent_namespace: str = setting("surgekit-agents", "namespace of the node agents' pods")
    agent_selector: str = setting(
        "app.kubernetes.io/name=surgekit-pulselet", "labels of the node agents' pods"
    )
    agent_port: int = setting(8447, "port of the node agents", minimum=1, maximum=65535)
    agents: tuple[str, ...] = setting(
        (), "agents that run in no pod, as NODE=ADDRESS:PORT, beside those that do; for a lab"
    )
    knative_autoscaler: str = setting(
        "",
        "host:port at which Knative's autoscaler takes statistics, "
        "autoscaler.knative-serving.svc:8080; empty: Knative is not looked at",
    )
    most_in_namespace: int = setting(
        100, "emergency instances at once, of all functions of a namespace", minimum=0, maximum=100_000
    )
    most_functions: int = setting(
        200, "BurstFunctions of a namespace that may overflow: the oldest", minimum=1, maximum=100_000
    )
    resolve_every_s: float = setting(
        60.0, "seconds after which a pod template is looked at again: what it names may have changed",
        minimum=5.0, maximum=3600.0,
    )  # fmt: skip
    status_every_s: float = setting(
        10.0, "seconds between two writes of a BurstFunction's status", minimum=1.0, maximum=600.0
    )
    scale_every_s: float = setting(
        2.0,
        "seconds between two decisions about regular instances; Knative's tick",
        minimum=0.5,
        maximum=60.0,
    )
    hit_share: float = setting(
        0.95, "share of emergency starts that should find a prepared instance", minimum=0.0, maximum=1.0
    )
    least_prepared: int = setting(
        1, "instances prepared for a function without excess traffic", minimum=0, maximum=1000
    )
    most_prepared: int = setting(64, "instances prepared for one function", minimum=1, maximum=10_000)
    least_nodes: int = setting(8, "nodes on which a function is prepared", minimum=1, maximum=1000)
    frozen_starts: int = setting(
        60, "emergency starts in ten minutes from which on one instance a node is kept frozen",
        minimum=1, maximum=1_000_000,
    )  # fmt: skip

    def __post_init__(self) -> None:
        self.fixed_agents  # noqa: B018  # raises SettingsError
        if self.knative_autoscaler and not is_place(self.knative_autoscaler):
            raise SettingsError(f"knative_autoscaler: {self.knative_autoscaler!r} is not HOST:PORT")

    @property
    def fixed_agents(self) -> list[tuple[str, str, int]]:
        """`agents` as (node, address, port). Raise SettingsError."""
        result = []
        for text in self.agents:
            node, sign, place = text.partition("=")
            host, _, port = place.rpartition(":")
            if not (node and sign and host and port.isdecimal() and len(port) <= 5):
                raise SettingsError(f"agents: {text!r} is not NODE=ADDRESS:PORT")
            result.append((node, host.strip("[]"), int(port)))
        return result

    @property
    def sizing(self) -> Sizing:
        return Sizing(
            hit_share=self.hit_share,
            least=self.least_prepared,
            most=self.most_prepared,
            least_nodes=self.least_nodes,
            frozen_starts=self.frozen_starts,
        )
