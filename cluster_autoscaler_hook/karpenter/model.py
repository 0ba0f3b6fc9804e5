"""What the hook knows of the cluster and what it wants of it. Plain values, units in the names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from cluster_autoscaler_hook.karpenter.labels import ARCHITECTURE, INSTANCE_TYPE, ZONE

__all__ = [
    "MIB",
    "Claim",
    "ClusterNode",
    "ClusterView",
    "Group",
    "Kind",
    "Offer",
    "PendingPod",
    "Plan",
    "PlannedNode",
    "Requirement",
    "Room",
    "Shortage",
    "WaitingPod",
]

MIB = 1 << 20
# A whole number as Gt and Lt compare it (64 bits); what a tenant writes may be anything.
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
        raise ValueError(f"operator {self.operator!r} is not modelled")

    def _compares(self, value: str | None) -> bool:
        """As kube-scheduler: a label that is missing or no whole number is neither more nor less."""
        if value is None or len(self.values) != 1:
            return False
        (bound,) = self.values
        if not (_INTEGER.fullmatch(value) and _INTEGER.fullmatch(bound)):
            return False
        return int(value) > int(bound) if self.operator == "Gt" else int(value) < int(bound)


@dataclass(frozen=True)
class Kind:
    """Pods that are alike to a planner: same requests, same constraints."""

    cpu_millicores: int
    memory_bytes: int
    # Any of these must hold, each with all its requirements; one empty term means anywhere.
    terms: tuple[tuple[Requirement, ...], ...] = ((),)
    # Two pods that share one of these cannot share a node (anti-affinity to their own kind, a host port).
    apart: tuple[str, ...] = ()
    # What it may run on if it names no architecture; none: any. Not part of what tells kinds apart.
    architectures: frozenset[str] = field(default=frozenset(), compare=False)

    @cached_property
    def id(self) -> str:
        """The same in every process: claims name their kinds by it."""
        terms = [[[r.key, r.operator, list(r.values)] for r in term] for term in self.terms]
        text = json.dumps([self.cpu_millicores, self.memory_bytes, terms, list(self.apart)])
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    @cached_property
    def keys(self) -> frozenset[str]:
        """The labels that its terms ask about."""
        return frozenset(requirement.key for term in self.terms for requirement in term)

    def allows(self, labels: Mapping[str, str]) -> bool:
        if self.architectures and ARCHITECTURE not in self.keys:
            architecture = labels.get(ARCHITECTURE)  # None: a class that the catalogue has lost since
            if architecture is not None and architecture not in self.architectures:
                return False
        return any(all(requirement.holds(labels) for requirement in term) for term in self.terms)

    def __str__(self) -> str:
        return f"{self.cpu_millicores}m/{self.memory_bytes / MIB:g}Mi"


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod without a node, as it was read: triage.py says what becomes of it."""

    uid: str
    namespace: str
    name: str
    kind: Kind | None
    unmodelled: str = ""  # why there is no kind
    opt_in: str = ""  # enforce, shadow or anything else: of the pod's label, else of its namespace's
    gates: tuple[str, ...] = ()
    unschedulable: bool = False  # the scheduler has tried it in vain
    nominated: str = ""


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod to plan for: behind our gate or, in mode shadow, tried by the scheduler in vain."""

    uid: str
    namespace: str
    name: str
    kind: Kind
    nominated: str = ""
    gated: bool = True
    released: bool = False  # by us, and the watch has not told of it yet


@dataclass(frozen=True, slots=True)
class Group:
    """Pods that something holds for, the reason, and one of them by name."""

    reason: str
    pods: int
    example: str


@dataclass(frozen=True, slots=True)
class Offer:
    """A class that can be rented, in one zone or in any, with what pods can have of a node of it."""

    name: str
    cpu_millicores: int
    memory_bytes: int
    pods: int
    price_per_hour: float
    labels: Mapping[str, str]

    @property
    def instance_class(self) -> str:
        return self.labels[INSTANCE_TYPE]

    @property
    def zone(self) -> str:
        """Empty: the provider chooses."""
        return self.labels.get(ZONE, "")


@dataclass(frozen=True, slots=True)
class Claim:
    """A NodeClaim of ours as the API server has it."""

    name: str
    instance_class: str
    planned: Mapping[str, int]  # kind id -> pods
    created: float  # Unix time
    provider_id: str = ""
    launched: bool = False
    failure: str = ""  # why it is not launched, if the provider said so
    deleting: bool = False
    # What its pods ask for together: its room, should the catalogue have lost its class.
    requested_cpu_millicores: int = 0
    requested_memory_bytes: int = 0
    zone: str = ""  # empty: the provider chooses


@dataclass(frozen=True, slots=True)
class ClusterNode:
    name: str
    provider_id: str
    instance_class: str
    labels: Mapping[str, str]
    cpu_millicores: int
    memory_bytes: int
    pods: int
    ready: bool = False  # registered by Karpenter, and no taint but ours keeps pods off
    do_not_disrupt: bool = False
    deleting: bool = False
    # What is bound to it, or was released and will be.
    used_cpu_millicores: int = 0
    used_memory_bytes: int = 0
    used_pods: int = 0
    workload_pods: int = 0  # those that no DaemonSet owns
    bound: Mapping[str, int] = field(default_factory=dict)  # kind id -> pods
    apart: frozenset[str] = frozenset()  # of the pods on it


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything a decision rests on, taken at one moment."""

    pending: tuple[PendingPod, ...] = ()
    claims: tuple[Claim, ...] = ()
    nodes: Mapping[str, ClusterNode] = field(default_factory=dict)  # ours, by name
    architectures: frozenset[str] = frozenset()  # what pods that name none may run on
    # What triage makes of the pending pods.
    waiting: tuple[WaitingPod, ...] = ()
    held: tuple[Group, ...] = ()  # behind our gate, and not to be planned for yet
    left: tuple[Group, ...] = ()  # opted in, and served by others

    def node_of(self, claim: Claim) -> ClusterNode | None:
        if not claim.provider_id:
            return None
        return next((n for n in self.nodes.values() if n.provider_id == claim.provider_id), None)


@dataclass
class Room:
    """What is free on one node of ours, rented or on its way. Changed while it is filled."""

    claim: Claim
    labels: Mapping[str, str]
    cpu_millicores: int
    memory_bytes: int
    pods: int
    kinds: dict[str, int]  # what is there already
    apart: set[str] = field(default_factory=set)  # of what is there already
    node: str = ""  # empty while it is on its way

    def takes(self, kind: Kind) -> bool:
        return bool(
            kind.cpu_millicores <= self.cpu_millicores
            and kind.memory_bytes <= self.memory_bytes
            and self.pods >= 1
            and kind.allows(self.labels)
            and self.apart.isdisjoint(kind.apart)
            # Which zone the provider chose is known when the node is there.
            and (self.node or ZONE in self.labels or ZONE not in kind.keys)
        )

    def add(self, kind: Kind) -> None:
        self.cpu_millicores -= kind.cpu_millicores
        self.memory_bytes -= kind.memory_bytes
        self.pods -= 1
        self.apart.update(kind.apart)
        self.kinds[kind.id] = self.kinds.get(kind.id, 0) + 1


@dataclass(frozen=True, slots=True)
class PlannedNode:
    claim: str
    instance_class: str
    price_per_hour: float
    pods: Mapping[str, int]  # kind id -> pods
    zone: str = ""  # empty: the provider chooses


@dataclass(frozen=True, slots=True)
class Shortage:
    """Pods that wait and that this plan does not serve, and why."""

    kind: str
    pods: int
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to rent for the pods that fit nowhere, and what that costs. No nodes: nothing to do."""

    id: str = ""
    nodes: tuple[PlannedNode, ...] = ()
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    cost_per_hour: float = 0.0
    lower_bound_per_hour: float = 0.0
    shortages: tuple[Shortage, ...] = ()
    reasons: tuple[str, ...] = ()
    deadline_reached: bool = False
