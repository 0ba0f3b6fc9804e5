"""Settings of the controller that decides for KneePolicies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from surgekit.process.settings import setting

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    prometheus_url: str = setting("http://prometheus-operated.monitoring:9090", "where Prometheus answers")
    prometheus_ca: Path | None = setting(None, "CA file for its certificate; none: the system's")
    prometheus_token: Path | None = setting(None, "file with a bearer token for it; none: no token")
    prometheus_timeout_s: float = setting(5.0, "seconds a query may take", minimum=0.1, maximum=60.0)
    unconfined_promql: bool = setting(
        False,
        "whether own PromQL of policies may read all series; else only those labelled with their namespace",
    )
    scrape_interval_s: float = setting(
        15.0, "seconds between Prometheus's scrapes: tells whether an interval is covered",
        minimum=0.1, maximum=600.0,
    )  # fmt: skip
    extra_nodes: int = setting(
        0, "nodes the node autoscaler could bring, as large as the largest one: added to the capacity",
        minimum=0, maximum=100000,
    )  # fmt: skip
    max_input_age_s: float = setting(
        60.0, "seconds without word from the API server after which nothing is decided",
        minimum=5.0, maximum=3600.0,
    )  # fmt: skip
    knative: bool = setting(
        False,
        "whether to serve Knative's PodAutoscalers of class knee.surgekit.dev, where Knative is installed",
    )
    knative_max_scale: int = setting(
        100, "most replicas of a revision without max-scale, or with 0, which to Knative is no limit",
        minimum=1, maximum=100000,
    )  # fmt: skip
    lease_namespace: str = setting(
        "surgekit-system", "namespace of the Lease surgekit-kneescale, held by the replica that decides"
    )
    bind: str = setting("0.0.0.0:8080", "address and port of /livez, /readyz, /metrics")
    log_level: str = setting("INFO", "DEBUG, INFO, WARNING or ERROR")
