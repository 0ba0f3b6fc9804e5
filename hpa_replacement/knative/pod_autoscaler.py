"""Reads a PodAutoscaler object. Pure; an error names the annotation or field and its value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surgekit.kube.api_path import Resource, is_api_version, is_kind, is_name
from surgekit.kube.checked import WrongType, checked
from surgekit.kube.scale_target import ScaleTarget

__all__ = ["CLASS", "PATH", "POD_AUTOSCALERS", "PodAutoscaler", "PodAutoscalerError", "is_ours", "read"]

Json = dict[str, Any]
POD_AUTOSCALERS = Resource("autoscaling.internal.knative.dev/v1alpha1", "podautoscalers")
PATH = POD_AUTOSCALERS.path()
# Classes that end in knative.dev are reserved for Knative.
CLASS = "knee.surgekit.dev"
_GROUP = "autoscaling.knative.dev"
_SHOWN = 300
_MOST = 100_000  # the limit of the KneePolicy's schema


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
    low: int
    high: int
    initial: int  # this many must have been Ready once before the revision counts as deployed
    allows_zero: bool  # Knative's own class would scale it to zero


def is_ours(obj: Json) -> bool:
    return (obj["metadata"].get("annotations") or {}).get(f"{_GROUP}/class") == CLASS


def read(obj: Json, default_high: int) -> PodAutoscaler:
    """`default_high` applies if max-scale is absent or 0, which means no limit in Knative."""
    try:
        return _read(obj, default_high)
    except (KeyError, TypeError, AttributeError, WrongType) as error:
        raise PodAutoscalerError(f"it cannot be read: {type(error).__name__}: {error}"[:_SHOWN]) from error


@checked
def _read(obj: Json, default_high: int) -> PodAutoscaler:
    metadata, spec = obj["metadata"], obj["spec"]
    annotations = metadata.get("annotations") or {}
    low = _number(annotations, "min-scale", "minScale")
    named_high = _number(annotations, "max-scale", "maxScale")
    initial = _number(annotations, "initial-scale", "initialScale")
    if 0 < named_high < low:
        raise PodAutoscalerError(f"{_GROUP}/max-scale: must be at least min-scale ({low}), is {named_high}")
    high = named_high or max(default_high, low)
    allows_zero = low == 0
    # Without a route there are no requests, and without samples no policy scales down. Knative ignores
    # min-scale for such revisions, too.
    low, high = (1, 1) if spec.get("reachability") == "Unreachable" else (max(low, 1), high)
    return PodAutoscaler(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        metadata.get("generation", 0),
        _target(metadata["namespace"], spec.get("scaleTargetRef") or {}),
        spec["protocolType"],
        low,
        high,
        min(max(low, initial), high),
        allows_zero,
    )


def _number(annotations: Mapping[str, str], *names: str) -> int:
    """0 if absent, as in Knative. The second name is Knative's older spelling of the first."""
    key = next((f"{_GROUP}/{name}" for name in names if f"{_GROUP}/{name}" in annotations), "")
    if not key:
        return 0
    text = annotations[key]
    if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) > _MOST:
        raise PodAutoscalerError(f"{key}: must be a whole number from 0 to {_MOST}, is {text!r}")
    return int(text)


def _target(namespace: str, reference: Json) -> ScaleTarget:
    for field, allowed in (("apiVersion", is_api_version), ("kind", is_kind), ("name", is_name)):
        value = reference.get(field)
        if not isinstance(value, str) or not allowed(value):
            raise PodAutoscalerError(
                f"spec.scaleTargetRef.{field}: {repr(value)[:200]} is not valid in Kubernetes"
            )
    return ScaleTarget(reference["apiVersion"], reference["kind"], namespace, reference["name"])
