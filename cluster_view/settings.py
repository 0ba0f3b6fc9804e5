"""Settings of `surgekit ui` and `surgekit top`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from surgekit.process.settings import setting

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    PART: ClassVar[str] = "view"

    bind: str = setting(
        "127.0.0.1:8765",
        "address and port of the page; whoever reaches it sees the cluster, without a password",
    )
    catalogue: Path | None = setting(
        None,
        "file with instance classes and prices in USD, .yaml or the FCMA paper's .csv; none: no catalogue",
    )
    price_labels: tuple[str, ...] = setting(
        ("surgekit.dev/price-per-hour", "eks-node-viewer/instance-price"),
        "labels or annotations of a node that hold its price per hour where the catalogue has none",
    )
    prometheus_url: str = setting("", "where Prometheus answers; none: requests per second are not shown")
    prometheus_ca: Path | None = setting(None, "CA file for its certificate; none: the system's")
    prometheus_token: Path | None = setting(None, "file with a bearer token for it; none: no token")
    prometheus_timeout_s: float = setting(5.0, "seconds a query may take", minimum=0.1, maximum=60.0)
    requests_promql: str = setting(
        "sum(rate(surgekit_function_responses_total[1m]))", "PromQL for requests per second, as one number"
    )
