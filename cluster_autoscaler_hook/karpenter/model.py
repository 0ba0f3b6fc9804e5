"""What the hook reads from the cluster, and what it plans. Plain values, units in the names."""

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
    "Kind",
    "Market",
    "Offer",
    "PendingPod",
    "Plan",
    "PlannedNode",
    "PodGroup",
    "Requirement",
    "Room",
    "Shortage",
    "SizeOffer",
    "SizeOption",
    "WaitingPod",
]

MIB = 1 << 20
# A whole number as Gt and Lt compare it (64 bits); a tenant may write anything.
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
        """As in kube-scheduler, a label that is missing or not a whole number is neither greater nor less."""
        if value is None or len(self.values) != 1:
            return False
        (bound,) = self.values
        if not (_INTEGER.fullmatch(value) and _INTEGER.fullmatch(bound)):
            return False
        return int(value) > int(bound) if self.operator == "Gt" else int(value) < int(bound)


@dataclass(frozen=True)
class Kind:
    """Pods that look the same to the planner: equal requests, equal constraints."""

    cpu_millicores: int
    memory_bytes: int
    # Node selector terms: one of them must hold, with all its requirements. An empty term always holds.
    terms: tuple[tuple[Requirement, ...], ...] = ((),)
    # Two pods that have one of these tokens in common cannot share a node: anti-affinity, a host port.
    exclusive: tuple[str, ...] = ()
    # Where it may run if it names no architecture; empty: anywhere. Does not make a kind a different one.
    architectures: frozenset[str] = field(default=frozenset(), compare=False)

    @cached_property
    def id(self) -> str:
        """The same in every process, since claims refer to their kinds by it."""
        terms = [[[r.key, r.operator, list(r.values)] for r in term] for term in self.terms]
        text = json.dumps([self.cpu_millicores, self.memory_bytes, terms, list(self.exclusive)])
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    @cached_property
    def keys(self) -> frozenset[str]:
        """The node labels that its terms refer to."""
        return frozenset(requirement.key for term in self.terms for requirement in term)

    def allows(self, labels: Mapping[str, str]) -> bool:
        if self.architectures and ARCHITECTURE not in self.keys:
            architecture = labels.get(ARCHITECTURE)  # None: a class that is no longer in the catalogue
            if architecture is not None and architecture not in self.architectures:
                return False
        return any(all(requirement.holds(labels) for requirement in term) for term in self.terms)

    def __str__(self) -> str:
        return f"{self.cpu_millicores}m/{self.memory_bytes / MIB:g}Mi"


@dataclass(frozen=True, slots=True)
class SizeOption:
    """A size that the pod's function has: what a whole pod requests, and the requests it serves at a time."""

    name: str
    cpu_millicores: int
    memory_bytes: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class SizeOffer:
    """A pod of a ComboFunc that may get another size: its batch needs a concurrency, in any of the sizes."""

    owner: str  # uid of the ComboFunc
    batch: str
    need: int  # concurrency of the whole batch
    most_pods: int
    size: str  # the pod's own
    options: tuple[SizeOption, ...]


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod without a node, as it was read; pending_pods.py decides what happens to it."""

    uid: str
    namespace: str
    name: str
    kind: Kind | None
    unmodelled: str = ""  # why there is no kind
    opt_in: str = ""  # the value of its own label, else of its namespace's: enforce, shadow or anything else
    gates: tuple[str, ...] = ()
    unschedulable: bool = False  # kube-scheduler tried it and found no node
    nominated: str = ""
    offer: SizeOffer | None = None


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod to plan for: behind our gate or, in mode shadow, found unschedulable by kube-scheduler."""

    uid: str
    namespace: str
    name: str
    kind: Kind
    nominated: str = ""
    gated: bool = True
    released: bool = False  # we removed its gate, and the watch has not shown it yet
    offer: SizeOffer | None = None  # other sizes would do


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods with the same reason, and one of them by name."""

    reason: str
    pods: int
    example: str


@dataclass(frozen=True, slots=True)
class Offer:
    """An instance class that can be rented, in one zone or in any, with what pods can use of such a node."""

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
        """Empty if the provider chooses."""
        return self.labels.get(ZONE, "")


@dataclass(frozen=True, slots=True)
class Market:
    """The classes that can be rented."""

    known: Mapping[str, Offer]  # every class in the catalogue, by name
    # Those that are not left out at the moment; None while the catalogue cannot be read.
    available: tuple[Offer, ...] | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """One of our NodeClaims, as the API server has it."""

    name: str
    instance_class: str
    planned: Mapping[str, int]  # kind id -> pods
    created: float  # Unix time
    provider_id: str = ""
    launched: bool = False
    failure: str = ""  # why it did not launch, as the provider reports
    deleting: bool = False
    # The sum of its pods' requests. Used as its room when its class is no longer in the catalogue.
    requested_cpu_millicores: int = 0
    requested_memory_bytes: int = 0
    zone: str = ""  # empty if the provider chooses


@dataclass(frozen=True, slots=True)
class ClusterNode:
    name: str
    provider_id: str
    instance_class: str
    labels: Mapping[str, str]
    cpu_millicores: int
    memory_bytes: int
    pods: int
    ready: bool = False  # registered by Karpenter, and only our own taint keeps pods off
    do_not_disrupt: bool = False
    deleting: bool = False
    # Pods that are bound to it, or were released to it and will be.
    used_cpu_millicores: int = 0
    used_memory_bytes: int = 0
    used_pods: int = 0
    workload_pods: int = 0  # without those of DaemonSets
    bound: Mapping[str, int] = field(default_factory=dict)  # kind id -> pods
    exclusive: frozenset[str] = frozenset()  # tokens of the pods on it


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The input of one decision, taken at one moment."""

    pending: tuple[PendingPod, ...] = ()
    claims: tuple[Claim, ...] = ()
    nodes: Mapping[str, ClusterNode] = field(default_factory=dict)  # ours, by name
    architectures: frozenset[str] = frozenset()  # for pods that name none
    # The pending pods as pending_pods.classify sorts them.
    waiting: tuple[WaitingPod, ...] = ()
    held: tuple[PodGroup, ...] = ()  # behind our gate and another one: not planned for yet
    left_to_karpenter: tuple[PodGroup, ...] = ()  # opted in, but not planned for
    ages_s: Mapping[str, float] = field(default_factory=dict)  # of the watches, by name

    def node_of(self, claim: Claim) -> ClusterNode | None:
        if not claim.provider_id:
            return None
        return next((n for n in self.nodes.values() if n.provider_id == claim.provider_id), None)


@dataclass
class Room:
    """Free space on one of our nodes, running or still being prepared. Changes while pods are placed."""

    claim: Claim
    labels: Mapping[str, str]
    cpu_millicores: int
    memory_bytes: int
    pods: int
    kinds: dict[str, int]  # pods already there, by kind id
    exclusive: set[str] = field(default_factory=set)  # tokens of the pods already there
    node: str = ""  # empty until the node has registered

    def takes(self, kind: Kind) -> bool:
        return bool(
            kind.cpu_millicores <= self.cpu_millicores
            and kind.memory_bytes <= self.memory_bytes
            and self.pods >= 1
            and kind.allows(self.labels)
            and self.exclusive.isdisjoint(kind.exclusive)
            # The zone that the provider chose is known once the node has registered.
            and (self.node or ZONE in self.labels or ZONE not in kind.keys)
        )

    def add(self, kind: Kind) -> None:
        self.cpu_millicores -= kind.cpu_millicores
        self.memory_bytes -= kind.memory_bytes
        self.pods -= 1
        self.exclusive.update(kind.exclusive)
        self.kinds[kind.id] = self.kinds.get(kind.id, 0) + 1


@dataclass(frozen=True, slots=True)
class PlannedNode:
    claim: str
    instance_class: str
    price_per_hour: float
    pods: Mapping[str, int]  # kind id -> pods
    zone: str = ""  # empty if the provider chooses


@dataclass(frozen=True, slots=True)
class Shortage:
    """Waiting pods that the plan does not serve, and why."""

    kind: str
    pods: int
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The nodes to rent for pods that fit nowhere, and their price. Without nodes there is nothing to do."""

    id: str = ""
    nodes: tuple[PlannedNode, ...] = ()
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    cost_per_hour: float = 0.0
    lower_bound_per_hour: float = 0.0
    shortages: tuple[Shortage, ...] = ()
    deadline_reached: bool = False
