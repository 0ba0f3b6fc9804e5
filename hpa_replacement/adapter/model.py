"""A policy as the adapter keeps it, and the answers to a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from surgekit.process.modes import Mode

__all__ = [
    "METRIC",
    "POLICY_LABEL",
    "NotFound",
    "PodFacts",
    "PodValues",
    "PolicyFacts",
    "PolicyTable",
    "TargetValue",
]

METRIC = "knee-replicas"
POLICY_LABEL = "policy"


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """The fields of a KneePolicy that decide whether its target is served."""

    namespace: str
    name: str
    mode: Mode
    paused: bool
    via_metrics: bool
    sampling_interval_s: float
    target_replicas: int | None  # None: nothing has been decided yet
    decided_at_s: float | None  # wall clock, as written by the controller
    generation: int = 0
    observed_generation: int | None = None
    fault: str = ""  # a field that cannot be read, and its value


# namespace -> name -> policy. Replaced, never changed in place: a request sees one consistent table.
PolicyTable = Mapping[str, Mapping[str, PolicyFacts]]


@dataclass(frozen=True, slots=True)
class TargetValue:
    """The replicas to serve to the HPA, and when they were decided."""

    namespace: str
    policy: str
    replicas: int
    decided_at_s: float


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod of a revision of Knative's."""

    name: str
    revision: str
    labels: Mapping[str, str]
    pending: bool


@dataclass(frozen=True, slots=True)
class PodValues:
    """What is served for each pod of a policy's target, in thousandths."""

    target: TargetValue
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NotFound:
    """No value, so the HPA leaves the replicas alone; `reason` is what `kubectl describe hpa` shows."""

    reason: str
