"""Reads a PodAutoscaler object. Pure; an error names the annotation or field and its value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpa_replacement.knative.config_autoscaler import MOST, AutoscalerConfig, is_unlimited, seconds, whole
from surgekit.kube.api_path import Resource, is_api_version, is_kind, is_name
from surgekit.kube.checked import WrongType, checked
from surgekit.kube.scale_target import ScaleTarget

__all__ = [
    "CLASS",
    "HPA_CLASS",
    "PATH",
    "POD_AUTOSCALERS",
    "PodAutoscaler",
    "PodAutoscalerError",
    "follows_our_metric",
    "is_ours",
    "read",
]

Json = dict[str, Any]
POD_AUTOSCALERS = Resource("autoscaling.internal.knative.dev/v1alpha1", "podautoscalers")
PATH = POD_AUTOSCALERS.path()
# Classes that end in knative.dev are reserved for Knative.
CLASS, HPA_CLASS = "knee.surgekit.dev", "hpa.autoscaling.knative.dev"
METRIC = "knee-replicas"
_GROUP = "autoscaling.knative.dev"
_SHOWN = 300


class PodAutoscalerError(ValueError):
    """The PodAutoscaler is invalid; the message says why."""


@dataclass(frozen=True, slots=True)
class PodAutoscaler:
    namespace: str
    name: str  # the revision's (serving v0.50.0, pkg/reconciler/revision/resources/names)
    uid: str
    generation: int
    target: ScaleTarget
    protocol: str
    low: int  # at least so many while it serves, at least 1
    high: int
    initial: int  # this many must have been Ready once before the revision counts as deployed
    awake_because: str  # why it is never scaled to zero; empty: it is
    window_s: float  # without requests, after which it goes to zero
    retention_s: float  # how long its last pods stay after that
    always_proxied: bool  # all requests go through the activator


def is_ours(obj: Json) -> bool:
    return _annotations(obj).get(f"{_GROUP}/class") == CLASS


def follows_our_metric(obj: Json) -> bool:
    """Whether Knative's HPA class scales it by our metric. We serve replicas, so the target is 1 a pod."""
    annotations = _annotations(obj)
    named = (annotations.get(f"{_GROUP}/{name}") for name in ("class", "metric", "target"))
    return tuple(named) == (HPA_CLASS, METRIC, "1")


def _annotations(obj: Json) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}


def read(obj: Json, default_high: int, config: AutoscalerConfig) -> PodAutoscaler:
    """`default_high` applies if max-scale is absent or 0, which means no limit in Knative."""
    try:
        return _read(obj, default_high, config)
    except (KeyError, TypeError, AttributeError, WrongType) as error:
        raise PodAutoscalerError(f"it cannot be read: {type(error).__name__}: {error}"[:_SHOWN]) from error


@checked
def _read(obj: Json, default_high: int, config: AutoscalerConfig) -> PodAutoscaler:
    metadata, spec = obj["metadata"], obj["spec"]
    annotations = _annotations(obj)
    least = _number(annotations, config.min_scale, "min-scale", "minScale")
    named_high = _number(annotations, config.max_scale, "max-scale", "maxScale")
    initial = _number(annotations, config.initial_scale, "initial-scale", "initialScale")
    activation = _number(annotations, 1, "activation-scale", "activationScale")
    if 0 < named_high < least:
        raise PodAutoscalerError(f"{_GROUP}/max-scale: must be at least min-scale ({least}), is {named_high}")
    high = named_high or max(default_high, least)
    if initial == 0 and not config.allow_zero_initial_scale:
        initial = config.initial_scale
    retention_s = _period_s(
        annotations, config.pod_retention_period_s,
        "scale-to-zero-pod-retention-period", "scaleToZeroPodRetentionPeriod",
    )  # fmt: skip
    if spec.get("reachability") == "Unreachable":
        # Without a route there are no requests, and without samples no policy scales down. Knative ignores
        # these annotations for such revisions, too.
        least, activation, initial, high, retention_s = 0, 1, min(initial, 1), 1, 0.0
    unlimited = annotations.get(
        f"{_GROUP}/target-burst-capacity", annotations.get(f"{_GROUP}/targetBurstCapacity")
    )
    return PodAutoscaler(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        metadata.get("generation", 0),
        _target(metadata["namespace"], spec.get("scaleTargetRef") or {}),
        spec["protocolType"],
        min(max(least, activation, 1), high),
        high,
        min(max(least, initial), high),
        f"min-scale is {least}"
        if least
        else ""
        if config.enable_scale_to_zero
        else "enable-scale-to-zero is false",
        _period_s(annotations, config.stable_window_s, "window"),
        retention_s,
        config.always_proxied if unlimited is None else is_unlimited(unlimited),
    )


def _named(annotations: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The first key that is there, or an empty one. The second name is Knative's older spelling."""
    return next((f"{_GROUP}/{name}" for name in names if f"{_GROUP}/{name}" in annotations), "")


def _number(annotations: Mapping[str, str], default: int, *names: str) -> int:
    key = _named(annotations, names)
    if not key:
        return default
    number = whole(annotations[key])
    if number is None:
        raise PodAutoscalerError(
            f"{key}: must be a whole number from 0 to {MOST}, is {repr(annotations[key])[:_SHOWN]}"
        )
    return number


def _period_s(annotations: Mapping[str, str], default_s: float, *names: str) -> float:
    key = _named(annotations, names)
    if not key:
        return default_s
    period_s = seconds(annotations[key])
    if period_s is None:
        raise PodAutoscalerError(
            f"{key}: must be a duration such as 30s or 1m30s, is {repr(annotations[key])[:_SHOWN]}"
        )
    return period_s


def _target(namespace: str, reference: Json) -> ScaleTarget:
    for field, allowed in (("apiVersion", is_api_version), ("kind", is_kind), ("name", is_name)):
        value = reference.get(field)
        if not isinstance(value, str) or not allowed(value):
            raise PodAutoscalerError(
                f"spec.scaleTargetRef.{field}: {repr(value)[:200]} is not valid in Kubernetes"
            )
    return ScaleTarget(reference["apiVersion"], reference["kind"], namespace, reference["name"])
