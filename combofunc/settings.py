"""Settings of the controller of ComboFuncs and InPlaceDeployments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cluster_model.contention import ContentionForm
from surgekit.process.modes import Mode
from surgekit.process.settings import LeaderSettings, PrometheusSettings, setting

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings(LeaderSettings, PrometheusSettings):
    PART: ClassVar[str] = "combofunc"

    price_weight: float = setting(
        0.25, "lambda of eq. (11) where a ComboFunc has none: seconds that one priced unit is worth",
        minimum=0.0, maximum=1000.0,
    )  # fmt: skip
    price_swing: float = setting(
        0.5, "x of eqs (7) and (8): how far a price moves from 1 as a node empties", minimum=0.0, maximum=1.0
    )
    contention: ContentionForm = setting(
        ContentionForm.MEASURED,
        "measured or paper: how much creations and resizes on one node slow each other down; as the probe's",
    )
    default_tau_create_s: float = setting(
        1.0, "seconds to create one container on a node no probe has measured", minimum=1e-3, maximum=3600.0
    )
    default_tau_resize_s: float = setting(
        0.1, "seconds to resize one container on a node no probe has measured", minimum=1e-3, maximum=3600.0
    )
    default_image_pull_s: float = setting(
        2.0, "seconds an image pull is taken to cost when none was ever measured", minimum=0.0, maximum=3600.0
    )
    creation_limit_s: float = setting(
        120.0, "seconds after which a pod still being created no longer counts as contention",
        minimum=1.0, maximum=3600.0,
    )  # fmt: skip
    gate_timeout_s: float = setting(
        10.0, "longest seconds beyond spec.drain that a new pod is held back until its node has room",
        minimum=0.0, maximum=600.0,
    )  # fmt: skip
    resize_wait_limit_s: float = setting(
        15.0, "seconds beyond spec.drain that a resize may wait for room; then: another plan, or another pod",
        minimum=0.0, maximum=3600.0,
    )  # fmt: skip
    unschedulable_s: float = setting(
        10.0, "seconds a pod that no node takes is kept before another plan is made; doubles each time",
        minimum=1.0, maximum=3600.0,
    )  # fmt: skip
    node_demand: Mode = setting(
        Mode.ENFORCE,
        "off, shadow or enforce: whether pods are created for what fits nowhere, so that a node autoscaler "
        "brings nodes for them; shadow says which ones, off removes them",
    )
    node_wait_s: float = setting(
        600.0, "seconds a pod waits for a node that an autoscaler brings; then other sizes, or a pause",
        minimum=5.0, maximum=86400.0,
    )  # fmt: skip
    max_waiting_pods: int = setting(
        50, "pods of one function that wait for nodes at a time, at most", minimum=1, maximum=1000
    )
    max_speed_age_s: float = setting(
        900.0, "seconds after which a node's measured speed is no longer believed",
        minimum=5.0, maximum=86400.0,
    )  # fmt: skip
    scrape_interval_s: float = setting(
        5.0, "seconds between Prometheus's scrapes of the balancer: the step in which a window is looked at",
        minimum=0.1, maximum=600.0,
    )  # fmt: skip
    collect_every_s: float = setting(
        5.0, "seconds between two looks at Prometheus for targets", minimum=0.1, maximum=600.0
    )
