"""Settings of the metrics adapter."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hpa_replacement.adapter.pods_metric import HIGHEST_TOLERANCE
from surgekit.process.settings import ProcessSettings, setting

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings(ProcessSettings):
    PART: ClassVar[str] = "adapter"

    max_age_intervals: float = setting(
        5.0, "a target decided longer ago than this many sampling intervals is not served",
        minimum=1.0, maximum=1000.0,
    )  # fmt: skip
    max_input_age_s: float = setting(
        60.0, "nothing is served when the watch of KneePolicies is older than this many seconds",
        minimum=5.0, maximum=3600.0,
    )  # fmt: skip
    knative: bool = setting(
        False, "whether to serve Pods metrics to Knative's HPA class; watches the pods of revisions"
    )
    hpa_tolerance: float = setting(
        0.1, "kube-controller-manager's --horizontal-pod-autoscaler-tolerance, for Pods metrics",
        minimum=0.0, maximum=HIGHEST_TOLERANCE,
    )  # fmt: skip
    allowed_for_s: float = setting(
        60.0, "seconds to cache that a user may read a metric", minimum=0.0, maximum=600.0
    )
    denied_for_s: float = setting(10.0, "seconds to cache that a user may not", minimum=0.0, maximum=600.0)
    bind: str = setting("0.0.0.0:8443", "address and port of the metrics APIs")
    tls_directory: Path = setting(
        Path("/etc/surgekit/tls"), "directory with tls.crt and tls.key; a renewed pair is loaded at once"
    )
