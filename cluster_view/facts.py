"""What is read of one object: the part that is shown, or that decides how another object is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cluster_view.model import Condition, CurvePoint, PodPhase, Reference, Replicas, Totals, Tracks
from surgekit.kube.label_selector import LabelSelector

__all__ = ["FunctionFacts", "NodeFacts", "PlanFacts", "PodFacts", "SpeedFacts", "Told", "Workload"]

# Namespace, kind and name of what a pod is a replica of.
Workload = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class NodeFacts:
    name: str
    ready: bool
    schedulable: bool
    instance_type: str | None
    zone: str | None
    price: float | None  # an hour, from a label or annotation
    rented_by: str | None
    claim: str  # of our hook's pool; empty: none
    cpu: float  # cores that pods can have
    memory: float  # bytes


@dataclass(frozen=True, slots=True)
class PodFacts:
    key: str  # namespace/name
    namespace: str
    node: str  # empty: none yet
    phase: PodPhase
    cpu: float
    memory: float
    workload: Workload | None
    labels: Mapping[str, str]
    created_s: float
    ready_s: float | None  # Unix time of the transition, in whole seconds
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SpeedFacts:
    node: str
    creation_s: float
    measured_s: float | None  # Unix time of the last creation that counted
    measured: bool  # else a prior
    samples: int


@dataclass(frozen=True, slots=True)
class Told:
    """A decision that an object tells of. It is new if its `mark` differs from the one before."""

    mark: str
    part: str
    about: Reference
    mode: str
    sentence: str
    at_s: float | None = None  # None: when it arrived
    replicas_more: int | None = None  # of a shadow decision: what it wants less what there is


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    key: str  # Kind/namespace/name
    kind: str
    namespace: str
    name: str
    mode: str
    replicas: Replicas
    workload: Workload | None  # what it scales; None: see `selector`
    selector: LabelSelector | None = None
    knee: int | None = None
    limits: Totals | None = None
    tracks: Tracks | None = None
    conditions: tuple[Condition, ...] = ()
    curve: tuple[CurvePoint, ...] | None = None
    told: Told | None = None


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """A NodePlan: what its claims and classes cost, and for what they were rented."""

    name: str
    price_of_class: Mapping[str, float] = field(default_factory=dict)
    why_of_claim: Mapping[str, str] = field(default_factory=dict)
    told: Told | None = None
