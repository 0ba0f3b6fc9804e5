"""Reads a BurstFunction object. The CRD's schema refuses most invalid values; the reader, the rest."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from burst_plane.model import Function
from surgekit.errors import UserError
from surgekit.kube import duration
from surgekit.kube.api_path import Resource, is_api_version, is_kind, is_name
from surgekit.kube.scale_target import ScaleTarget
from surgekit.process.modes import Mode

__all__ = ["BURST_FUNCTIONS", "PATH", "BurstFunction", "SpecError", "Variant", "Via", "read"]

Json = dict[str, Any]
BURST_FUNCTIONS = Resource("surgekit.dev/v1alpha1", "burstfunctions")
PATH = BURST_FUNCTIONS.path()
_KNATIVE = "serving.knative.dev/"  # API group of targets whose number Knative sets
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SHOWN = 100  # characters of a refused value in an error
W = TypeVar("W", bound=StrEnum)


class SpecError(UserError, ValueError):
    """A field that cannot be used; the message names it and its value."""


class Variant(StrEnum):
    """How a node is chosen."""

    PAPER = "paper"  # round robin
    BEST = "best"  # free budget, what is prepared there, node speed


class Via(StrEnum):
    """Who sets the number of regular instances."""

    SCALE = "scale"  # our controller, through the scale subresource
    METRIC = "metric"  # another autoscaler, by the number on /metrics
    KNATIVE = "knative"  # Knative's own autoscaler, which is told of excess traffic
    NONE = "none"  # nobody of ours


@dataclass(frozen=True, slots=True)
class BurstFunction:
    function: Function
    uid: str
    generation: int
    target: ScaleTarget
    mode: Mode
    variant: Variant
    concurrency: int
    idempotent: bool
    keepalive_s: float
    threshold_percentile: float
    most_instances: int
    longest_s: float
    via: Via
    min_replicas: int
    max_replicas: int
    target_percentage: float

    @property
    def key(self) -> str:
        return f"{self.function.namespace}/{self.function.name}"

    @property
    def is_knative(self) -> bool:
        return self.target.api_version.startswith(_KNATIVE)


def read(obj: Json) -> BurstFunction:
    """Raises SpecError, which names the field."""
    metadata, spec = _part("metadata", obj), _part("spec", obj)
    namespace = _text("metadata.namespace", metadata, _is_label, "a namespace")
    name = _text("metadata.name", metadata, _is_label, "a DNS label: it is part of a host name")
    target, scaling = _part("spec.targetRef", spec), _part("spec.scaling", spec)
    idempotent = spec.get("idempotent", False)
    if not isinstance(idempotent, bool):
        raise SpecError(f"spec.idempotent: must be true or false, is {_shown(idempotent)}")
    low, high = (
        _whole("spec.scaling.minReplicas", scaling, 0, 0, 100_000),
        _whole("spec.scaling.maxReplicas", scaling, 1000, 1, 100_000),
    )
    if low > high:
        raise SpecError(f"spec.scaling.minReplicas: {low} is more than maxReplicas, {high}")
    api_version = _text("spec.targetRef.apiVersion", target, is_api_version, "an apiVersion")
    knative = api_version.startswith(_KNATIVE)
    via = _word("spec.scaling.via", scaling, Via, Via.KNATIVE if knative else Via.SCALE)
    if via is not Via.NONE and (via is Via.KNATIVE) != knative:
        raise SpecError(f"spec.scaling.via: {via} is not for a target of {api_version[:_SHOWN]}")
    return BurstFunction(
        Function(namespace, name),
        _text("metadata.uid", metadata),
        _whole("metadata.generation", metadata, 0, 0, 1 << 62),
        ScaleTarget(
            api_version,
            _text("spec.targetRef.kind", target, is_kind, "a kind"),
            namespace,
            _text("spec.targetRef.name", target, is_name, "a name in Kubernetes"),
        ),
        _word("spec.mode", spec, Mode, Mode.SHADOW),
        _word("spec.variant", spec, Variant, Variant.BEST),
        _whole("spec.concurrency", spec, 1, 1, 1000),
        idempotent,
        _duration_s("spec.keepalive", spec, "60s", 1.0, 3600.0),
        _number("spec.thresholdPercentile", spec, 50.0, 1.0, 100.0),
        _whole("spec.mostInstances", spec, 10, 0, 10_000),
        _duration_s("spec.longest", spec, "5m", 1.0, 3600.0),
        via,
        low,
        high,
        _number("spec.scaling.targetPercentage", scaling, 70.0, 1.0, 100.0),
    )


# `where` is the full path of a field; its last part is the key in the object `of`.


def _part(where: str, of: object) -> Json:
    value = of.get(where.rpartition(".")[2]) if isinstance(of, dict) else None
    if value is None and where == "spec.scaling":
        return {}
    if not isinstance(value, dict):
        raise SpecError(f"{where}: must be an object, is {_shown(value)}")
    return value


def _text(where: str, of: Json, allowed: Callable[[str], bool] = bool, what: str = "a text") -> str:
    value = of.get(where.rpartition(".")[2])
    if not isinstance(value, str) or not allowed(value):
        raise SpecError(f"{where}: must be {what}, is {_shown(value)}")
    return value


def _word(where: str, of: Json, words: type[W], default: W) -> W:
    value = of.get(where.rpartition(".")[2], default)
    try:
        return words(value)
    except ValueError:
        raise SpecError(f"{where}: must be one of {', '.join(words)}, is {_shown(value)}") from None


def _whole(where: str, of: Json, default: int, low: int, high: int) -> int:
    value = of.get(where.rpartition(".")[2], default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SpecError(f"{where}: must be a whole number from {low} to {high}, is {_shown(value)}")
    return value


def _number(where: str, of: Json, default: float, low: float, high: float) -> float:
    value = of.get(where.rpartition(".")[2], default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise SpecError(f"{where}: must be a number from {low:g} to {high:g}, is {_shown(value)}")
    return float(value)


def _duration_s(where: str, of: Json, default: str, low_s: float, high_s: float) -> float:
    value = of.get(where.rpartition(".")[2], default)
    seconds = duration.seconds(value)
    if seconds is None or not low_s <= seconds <= high_s:
        bounds = f"from {low_s:g}s to {high_s:g}s"
        raise SpecError(f"{where}: must be a duration {bounds}, such as 1m30s, is {_shown(value)}")
    return seconds


def _is_label(text: str) -> bool:
    return bool(_LABEL.fullmatch(text))


def _shown(value: object) -> str:
    """Python cannot print an integer of thousands of digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 1 << 63 else "out of range"
    readable = isinstance(value, str | list | dict | float)
    return repr(value)[:_SHOWN] if readable else f"of type {type(value).__name__}"
