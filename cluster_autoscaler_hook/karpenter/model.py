"""What the hook knows of the cluster and what it wants of it. Plain values, units in the names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

__all__ = [
    "CLAIM_LABEL",
    "GATE",
    "HOSTNAME",
    "INSTANCE_TYPE",
    "MIB",
    "OPT_IN_LABEL",
    "PLANNED_ANNOTATION",
    "POOL_LABEL",
    "Claim",
    "ClusterNode",
    "ClusterView",
    "Kind",
    "Offer",
    "Plan",
    "PlannedNode",
    "Requirement",
    "Room",
    "Shortage",
    "WaitingPod",
]

# On our claims and nodes, in the nodeSelector and (as a taint) in the tolerations of the pods for them.
POOL_LABEL = "surgekit.dev/pool"
# The scheduling gate of pods that opted in: taken off once a pod's node is there.
GATE = "surgekit.dev/nodes"
# On pods and namespaces: enforce or shadow.
OPT_IN_LABEL = "surgekit.dev/nodes"
CLAIM_LABEL = "surgekit.dev/claim"
# Which kinds of pods, and how many of each, a claim was made for.
PLANNED_ANNOTATION = "surgekit.dev/planned"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
HOSTNAME = "kubernetes.io/hostname"
MIB = 1 << 20


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
        raise ValueError(f"operator {self.operator!r} is not modelled")


@dataclass(frozen=True)
class Kind:
    """Pods that are alike to a planner: same requests, same constraints."""

    cpu_millicores: int
    memory_bytes: int
    # Any of these must hold, each with all its requirements; one empty term means anywhere.
    terms: tuple[tuple[Requirement, ...], ...] = ((),)
    # What keeps two of them from sharing a node (anti-affinity to themselves, a host port); often nothing.
    apart: str = ""

    @cached_property
    def id(self) -> str:
        """The same in every process: claims name their kinds by it."""
        terms = [[[r.key, r.operator, list(r.values)] for r in term] for term in self.terms]
        text = json.dumps([self.cpu_millicores, self.memory_bytes, terms, self.apart])
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    def allows(self, labels: Mapping[str, str]) -> bool:
        return any(all(requirement.holds(labels) for requirement in term) for term in self.terms)

    def __str__(self) -> str:
        return f"{self.cpu_millicores}m/{self.memory_bytes / MIB:g}Mi"


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that opted in and has no node: still behind our gate, or tried by the scheduler in vain."""

    uid: str
    namespace: str
    name: str
    kind: Kind
    nominated: str = ""
    enforced: bool = True  # else it is only planned for (shadow)
    gated: bool = True
    released: bool = False  # by us, and the watch has not told of it yet


@dataclass(frozen=True, slots=True)
class Offer:
    """A class that can be rented, with what pods can have of a node of it."""

    name: str
    cpu_millicores: int
    memory_bytes: int
    pods: int
    price_per_hour: float
    labels: Mapping[str, str]


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


@dataclass(frozen=True, slots=True)
class ClusterNode:
    name: str
    provider_id: str
    instance_class: str
    labels: Mapping[str, str]
    cpu_millicores: int
    memory_bytes: int
    pods: int
    registered: bool = False
    do_not_disrupt: bool = False
    deleting: bool = False
    # What is bound to it, or was released and will be.
    used_cpu_millicores: int = 0
    used_memory_bytes: int = 0
    used_pods: int = 0
    workload_pods: int = 0  # those that no DaemonSet owns
    bound: Mapping[str, int] = field(default_factory=dict)  # kind id -> pods


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything a decision rests on, taken at one moment."""

    waiting: tuple[WaitingPod, ...] = ()
    claims: tuple[Claim, ...] = ()
    nodes: Mapping[str, ClusterNode] = field(default_factory=dict)  # ours, by name
    left: Mapping[str, int] = field(default_factory=dict)  # why pods were not planned for -> how many
    age_s: float = 0.0

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
    node: str = ""  # empty while it is on its way

    def takes(self, kind: Kind) -> bool:
        return (
            kind.cpu_millicores <= self.cpu_millicores
            and kind.memory_bytes <= self.memory_bytes
            and self.pods >= 1
            and kind.allows(self.labels)
            and not (kind.apart and self.kinds.get(kind.id))
        )

    def add(self, kind: Kind) -> None:
        self.cpu_millicores -= kind.cpu_millicores
        self.memory_bytes -= kind.memory_bytes
        self.pods -= 1
        self.kinds[kind.id] = self.kinds.get(kind.id, 0) + 1


@dataclass(frozen=True, slots=True)
class PlannedNode:
    claim: str
    instance_class: str
    price_per_hour: float
    pods: Mapping[str, int]  # kind id -> pods


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
