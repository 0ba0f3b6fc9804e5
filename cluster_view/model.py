"""What the page and the terminal show. These are JSON values: they go over the wire as they are here.

None means unknown, never zero. Times (`at`, `created_at`, `decided_at`) are ISO 8601 in UTC.
Cores and bytes. Every text in here may come from a tenant: escape it where it is shown.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

__all__ = [
    "MOST_DECISIONS",
    "MOST_OF_ONE_FUNCTION",
    "Change",
    "Condition",
    "CurvePoint",
    "Decision",
    "Difference",
    "ExplainedNode",
    "Explanation",
    "Function",
    "FunctionDecision",
    "Head",
    "Node",
    "Pod",
    "PodPhase",
    "Reference",
    "Replicas",
    "Share",
    "Size",
    "Snapshot",
    "Totals",
    "Tracks",
    "apply",
]

MOST_DECISIONS = 200  # of a snapshot, newest first
MOST_OF_ONE_FUNCTION = 20  # decisions of one function, newest first

PodPhase = Literal["Pending", "Creating", "Ready", "Terminating", "Failed"]


class Share(TypedDict):
    """Of one resource of one node."""

    allocatable: float
    requested: float


class Node(TypedDict):
    name: str
    ready: bool
    schedulable: bool
    instance_type: str | None
    zone: str | None
    usd_per_hour: float | None
    creation_s: float | None  # tau_c: to create one container there, alone
    relative_speed: float | None  # median creation_s of all nodes / this one's: 2 is twice as fast
    speed_age_s: float | None  # since the last creation that was measured, when this row was made
    cpu: Share  # cores
    memory: Share  # bytes
    pods: int
    creating: int  # pods being created there
    rented_by: str | None  # Karpenter's pool, or ours; None: not known
    why: list[str]  # sentences: why it was rented, what it costs


class Pod(TypedDict):
    key: str  # namespace/name
    node: str | None
    phase: PodPhase
    cpu: float  # requested cores
    memory: float  # requested bytes
    function: str | None  # key of the function it belongs to
    created_at: str
    ready_after_s: float | None  # None: not Ready yet
    why: list[str]


class Replicas(TypedDict):
    ready: int | None
    desired: int | None


class Size(TypedDict):
    """Containers of one size; cores and bytes."""

    cpu: float
    memory: float
    count: int


class Totals(TypedDict):
    cpu: float
    memory: float


class Condition(TypedDict):
    type: str
    status: str  # True, False or Unknown
    reason: str
    message: str


class FunctionDecision(TypedDict):
    at: str
    sentence: str


class Tracks(TypedDict):
    """Requests in flight (PulseNet, section 4)."""

    regular: float
    emergency: float


class CurvePoint(TypedDict):
    replicas: int
    score: float


class Function(TypedDict):
    """A ComboFunc, KneePolicy, BurstFunction or DistributedContainer."""

    key: str  # Kind/namespace/name
    kind: str
    namespace: str
    name: str
    mode: str  # off, shadow or enforce
    replicas: Replicas
    sizes: list[Size]
    knee: int | None
    limits: Totals | None  # in force for all containers together (Escra)
    tracks: Tracks | None
    conditions: list[Condition]
    curve: list[CurvePoint] | None  # measured points, by replicas
    decisions: list[FunctionDecision]  # newest first


class Reference(TypedDict):
    kind: str
    namespace: str  # empty: cluster-scoped
    name: str


class Difference(TypedDict):
    """What a shadow decision would have changed: below 0 is faster or cheaper. 0 if it is the same."""

    seconds: float | None
    usd_per_hour: float | None


class Decision(TypedDict):
    at: str
    part: str  # the package that decided
    object: Reference
    mode: str
    sentence: str
    would_differ: Difference | None  # None: carried out, or nothing to compare with


class Head(TypedDict):
    nodes: int
    pods: int
    usd_per_hour: float | None  # of the nodes with a known price; None: no price is known
    requests_per_s: float | None
    cold_starts_last_minute: float | None


class Snapshot(TypedDict):
    at: str
    cluster: str
    head: Head
    nodes: dict[str, Node]
    pods: dict[str, Pod]
    functions: dict[str, Function]
    decisions: list[Decision]


class Change(TypedDict):
    """None removes an object; `decisions` are the new ones, newest first."""

    at: str
    head: Head
    nodes: dict[str, Node | None]
    pods: dict[str, Pod | None]
    functions: dict[str, Function | None]
    decisions: list[Decision]


class ExplainedNode(TypedDict):
    name: str
    rank: int  # 1: the best
    score: int  # what the scheduler was told, 0 to 10
    cost: float  # D_np / Q_p (eq. 11), in seconds
    terms: dict[str, float]  # what the cost is made of; they add up to it
    lost_by: float  # cost less that of the best node; 0 for the best


class Explanation(TypedDict):
    """The extender's decision about one pod."""

    decided_at: str
    mode: str
    reasons: list[str]
    nodes: list[ExplainedNode]  # by rank


def apply(before: Snapshot, change: Change) -> Snapshot:
    """The snapshot after the change. Neither argument is changed."""
    return {
        "at": change["at"],
        "cluster": before["cluster"],
        "head": change["head"],
        "nodes": _applied(before["nodes"], change["nodes"]),
        "pods": _applied(before["pods"], change["pods"]),
        "functions": _applied(before["functions"], change["functions"]),
        "decisions": [*change["decisions"], *before["decisions"]][:MOST_DECISIONS],
    }


def _applied(rows: dict[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    merged = rows | changed
    return {key: row for key, row in merged.items() if row is not None}
