"""Settings of the controller that decides for KneePolicies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surgekit.process.settings import LeaderSettings, PrometheusSettings, setting

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings(LeaderSettings, PrometheusSettings):
    PART: ClassVar[str] = "kneescale"

    scrape_interval_s: float = setting(
        15.0, "seconds between Prometheus's scrapes: tells whether an interval is covered",
        minimum=0.1, maximum=600.0,
    )  # fmt: skip
    extra_nodes: int = setting(
        0, "nodes the node autoscaler could bring, as large as the largest one: added to the capacity",
        minimum=0, maximum=100000,
    )  # fmt: skip
    knative: bool = setting(
        False,
        "whether to serve Knative's PodAutoscalers of class knee.surgekit.dev, where Knative is installed",
    )
    knative_namespace: str = setting(
        "knative-serving", "where Knative's ConfigMap config-autoscaler and its activators are"
    )
    knative_max_scale: int = setting(
        100, "most replicas of a revision without max-scale, or with 0, which to Knative is no limit",
        minimum=1, maximum=100000,
    )  # fmt: skip
