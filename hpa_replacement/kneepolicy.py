"""Reads a KneePolicy object. The CRD's schema refuses most invalid values; the rest is refused here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from hpa_replacement.decision.policy import AtEnd, Budget, Policy, PolicyError, Search, Thresholds
from hpa_replacement.observe.presets import PRESETS
from hpa_replacement.search.state import Variant
from surgekit.kube import duration
from surgekit.kube.api_path import Resource, is_api_version, is_kind, is_name
from surgekit.kube.scale_target import ScaleTarget
from surgekit.process.modes import Mode

__all__ = ["KNEE_POLICIES", "PATH", "KneePolicy", "Via", "read"]

Json = dict[str, Any]
KNEE_POLICIES = Resource("surgekit.dev/v1alpha1", "kneepolicies")
PATH = KNEE_POLICIES.path()
_FUNCTION, _LONGEST_FUNCTION = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"), 253  # the CRD's
_SHOWN = 200  # characters of a refused value in an error
W = TypeVar("W", bound=StrEnum)


class Via(StrEnum):
    """How a decision is applied."""

    SCALE = "scale"  # by the controller, through the scale subresource
    METRICS = "metrics"  # by an HPA that follows our metric


@dataclass(frozen=True, slots=True)
class KneePolicy:
    namespace: str
    name: str
    generation: int
    target: ScaleTarget
    mode: Mode
    paused: bool
    via: Via
    policy: Policy
    preset: str
    function: str
    queries: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def counts_concurrency(self) -> bool:
        """Whether a replica of the target's scale is one concurrent request; a pod then has several."""
        return self.target.kind == "ComboFunc" and self.target.api_version.startswith("surgekit.dev/")


def read(obj: Json) -> KneePolicy:
    """Raises PolicyError, which names the field."""
    metadata, spec = obj["metadata"], _part("spec", obj)
    reference, metrics = _part("spec.scaleTargetRef", spec), _part("spec.metrics", spec)
    queries = _part("spec.metrics.queries", metrics)
    target = ScaleTarget(
        _text("spec.scaleTargetRef.apiVersion", reference, is_api_version, "an apiVersion"),
        _text("spec.scaleTargetRef.kind", reference, is_kind, "a kind"),
        metadata["namespace"],
        _text("spec.scaleTargetRef.name", reference, is_name, "a name in Kubernetes"),
    )
    preset = metrics.get("preset", "http")
    if preset not in PRESETS:
        raise PolicyError(f"spec.metrics.preset: must be one of {', '.join(PRESETS)}, is {preset!r}")
    paused = spec.get("paused", False)
    if not isinstance(paused, bool):
        raise PolicyError(f"spec.paused: must be true or false, is {paused!r}")
    return KneePolicy(
        metadata["namespace"],
        metadata["name"],
        metadata.get("generation", 0),
        target,
        _word("spec.mode", spec, Mode, Mode.SHADOW),
        paused,
        _word("spec.via", spec, Via, Via.SCALE),
        _policy(spec),
        preset,
        _text("spec.metrics.function", metrics, _is_function, "the name of a function")
        if metrics.get("function")
        else target.name,
        {what: _text(f"spec.metrics.queries.{what}", queries) for what, query in queries.items() if query},
    )


def _policy(spec: Json) -> Policy:
    search = _part("spec.search", spec)
    return Policy(
        max_replicas=_whole("spec.maxReplicas", spec),
        min_replicas=_whole("spec.minReplicas", spec, 1),
        interval_s=_duration_s("spec.samplingInterval", spec.get("samplingInterval", "30s")),
        thresholds=_thresholds(_part("spec.thresholds", spec)),
        search=Search(
            _word("spec.search.variant", search, Variant, Variant.BEST),
            _whole("spec.search.explorationCap", search) if "explorationCap" in search else None,
        ),
        budget=_budget(_part("spec.budget", spec)),
    )


def _thresholds(thresholds: Json) -> Thresholds:
    where, default = "spec.thresholds", Thresholds()
    return Thresholds(
        _number(f"{where}.throughputPerSecond", thresholds, default.throughput_per_s),
        _number(f"{where}.errorsPerSecond", thresholds, default.errors_per_s),
        _number(f"{where}.cpuDrop", thresholds, default.cpu_drop),
        _number(f"{where}.latencySeconds", thresholds) if "latencySeconds" in thresholds else None,
    )


def _budget(budget: Json) -> Budget | None:
    if not budget:
        return None
    return Budget(
        _number("spec.budget.replicaIntervals", budget),
        _duration_s("spec.budget.window", budget.get("window")),
        _word("spec.budget.atEnd", budget, AtEnd, AtEnd.HOLD),
    )


def _duration_s(where: str, text: object) -> float:
    seconds = duration.seconds(text)
    if seconds is None:
        raise PolicyError(f"{where}: must be a duration such as 30s or 1m30s, is {text!r}")
    return seconds


# `where` is the full path of a field; its last part is the key in the object `of`.


def _part(where: str, of: Json) -> Json:
    value = of.get(where.rpartition(".")[2]) or {}
    if not isinstance(value, dict):
        raise PolicyError(f"{where}: must be an object, is {value!r}")
    return value


def _text(where: str, of: Json, allowed: Callable[[str], bool] = bool, what: str = "a text") -> str:
    value = of.get(where.rpartition(".")[2])
    if not isinstance(value, str) or not allowed(value):
        raise PolicyError(f"{where}: must be {what}, is {repr(value)[:_SHOWN]}")
    return value


def _is_function(text: str) -> bool:
    """Whether it can be a gateway's label value: it is filled into PromQL."""
    return len(text) <= _LONGEST_FUNCTION and bool(_FUNCTION.fullmatch(text))


def _number(where: str, of: Json, default: float | None = None) -> float:
    value = of.get(where.rpartition(".")[2], default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PolicyError(f"{where}: must be a number, is {value!r}")
    return float(value)


def _whole(where: str, of: Json, default: int | None = None) -> int:
    value = of.get(where.rpartition(".")[2], default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise PolicyError(f"{where}: must be a whole number, is {value!r}")
    return value


def _word(where: str, of: Json, words: type[W], default: W) -> W:
    value = of.get(where.rpartition(".")[2], default)
    try:
        return words(value)
    except ValueError:
        raise PolicyError(f"{where}: must be one of {', '.join(words)}, is {value!r}") from None
