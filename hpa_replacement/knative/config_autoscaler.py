"""Reads Knative's ConfigMap config-autoscaler: the defaults of annotations, and whether revisions go to zero.

Pure and total. Knative's webhook refuses invalid values; where one is met all the same, Knative's own default
(serving v0.50.0, pkg/autoscaler/config/config.go) holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from surgekit.kube import duration

__all__ = ["MOST", "NAME", "AutoscalerConfig", "is_unlimited", "read_config", "seconds", "whole"]

NAME = "config-autoscaler"
MOST = 100_000  # replicas; the limit of the KneePolicy's schema
_WHOLE = re.compile(r"[0-9]{1,6}", re.ASCII)


@dataclass(frozen=True, slots=True)
class AutoscalerConfig:
    enable_scale_to_zero: bool = True
    allow_zero_initial_scale: bool = False
    initial_scale: int = 1
    min_scale: int = 0
    max_scale: int = 0  # no limit
    stable_window_s: float = 60.0
    scale_to_zero_grace_period_s: float = 30.0
    pod_retention_period_s: float = 0.0
    always_proxied: bool = False  # target-burst-capacity is -1


def read_config(data: Mapping[str, object]) -> AutoscalerConfig:
    default = AutoscalerConfig()

    def flag(key: str, otherwise: bool) -> bool:
        value = data.get(key)
        return value.lower() == "true" if isinstance(value, str) else otherwise

    def number(key: str, otherwise: int) -> int:
        value = whole(data.get(key))
        return otherwise if value is None else value

    def period_s(key: str, otherwise: float) -> float:
        value = seconds(data.get(key))
        return otherwise if value is None else value

    return AutoscalerConfig(
        enable_scale_to_zero=flag("enable-scale-to-zero", default.enable_scale_to_zero),
        allow_zero_initial_scale=flag("allow-zero-initial-scale", default.allow_zero_initial_scale),
        initial_scale=number("initial-scale", default.initial_scale),
        min_scale=number("min-scale", default.min_scale),
        max_scale=number("max-scale", default.max_scale),
        stable_window_s=period_s("stable-window", default.stable_window_s),
        scale_to_zero_grace_period_s=period_s(
            "scale-to-zero-grace-period", default.scale_to_zero_grace_period_s
        ),
        pod_retention_period_s=period_s("scale-to-zero-pod-retention-period", default.pod_retention_period_s),
        always_proxied=is_unlimited(data.get("target-burst-capacity")),
    )


def whole(text: object) -> int | None:
    """A number of replicas; None if it is none."""
    if not isinstance(text, str) or not _WHOLE.fullmatch(text) or int(text) > MOST:
        return None
    return int(text)


def seconds(text: object) -> float | None:
    """A duration of Go; None if it is none. A bare 0 is one, too."""
    return 0.0 if text == "0" else duration.seconds(text)


def is_unlimited(burst_capacity: object) -> bool:
    try:
        return isinstance(burst_capacity, str) and float(burst_capacity) == -1
    except ValueError:
        return False
