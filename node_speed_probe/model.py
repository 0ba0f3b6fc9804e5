"""The values of a measurement: facts from sources, samples, and published estimates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

__all__ = [
    "CreationAborted",
    "CreationMeasured",
    "Fact",
    "ImagePull",
    "NodeGone",
    "NodeSeen",
    "NodeSpeedEstimate",
    "NodesListed",
    "Outcome",
    "PodGone",
    "PodSeen",
    "PodsListed",
    "PullEnded",
    "PullStarted",
    "Reason",
    "Sample",
    "SourceOfTau",
    "Stage",
    "Unfinished",
]

SourceOfTau = Literal["measured", "prior"]


class Stage(StrEnum):
    """How far a bound pod is on its way to running."""

    CREATING = "creating"
    RUNNING_INIT = "running init"  # an init container's own program runs: nothing is being created
    STARTED = "started"
    BROKEN = "broken"  # it will not start, or is held up by something other than the node


Resources = tuple[tuple[str, float, float, float, float], ...]


@dataclass(frozen=True, slots=True)
class PodSeen:
    """The fields of a bound pod that measuring needs."""

    uid: str
    node: str
    stage: Stage
    containers: int = 1  # to be created, init containers included
    images: tuple[str, ...] = ()
    broken_by: str = ""  # why it gives no sample, even if it started
    # Per container: name, then requests and limits of cpu (cores) and memory (bytes); -1 where unset.
    wanted: Resources = ()
    actual: Resources = ()
    resize_refused: bool = False  # the kubelet deferred the resize; waiting for room is not part of it


@dataclass(frozen=True, slots=True)
class PodGone:
    uid: str


@dataclass(frozen=True, slots=True)
class PodsListed:
    """All bound pods, after a list. What happened since the last event is unknown."""

    pods: tuple[PodSeen, ...]
    unread: frozenset[str] = frozenset()  # uids of pods that exist but cannot be read


@dataclass(frozen=True, slots=True)
class NodeSeen:
    name: str
    uid: str
    images: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NodeGone:
    name: str


@dataclass(frozen=True, slots=True)
class NodesListed:
    nodes: tuple[NodeSeen, ...]
    unread: frozenset[str] = frozenset()  # names of nodes that exist but cannot be read


@dataclass(frozen=True, slots=True)
class PullStarted:
    pod_uid: str
    image: str


@dataclass(frozen=True, slots=True)
class PullEnded:
    """The image is on the node. `seconds` is None if it was there already."""

    pod_uid: str
    image: str
    node: str = ""
    seconds: float | None = None
    size_bytes: int | None = None


Fact = PodSeen | PodGone | PodsListed | NodeSeen | NodeGone | NodesListed | PullStarted | PullEnded


@dataclass(frozen=True, slots=True)
class Sample:
    """A creation (or resize) from `began_s` to `ended_s`; each of its containers took `tau_s`."""

    began_s: float
    ended_s: float
    tau_s: float
    containers: int = 1


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A creation in progress since `began_s`; each of its containers has taken `tau_s` so far."""

    began_s: float
    tau_s: float
    overtaken: bool  # a later creation is already done, so the node is not the cause


@dataclass(frozen=True, slots=True)
class CreationMeasured:
    node: str
    sample: Sample


@dataclass(frozen=True, slots=True)
class CreationAborted:
    """A creation that ended without a sample."""

    node: str
    reason: str


Outcome = CreationMeasured | CreationAborted


@dataclass(frozen=True, slots=True)
class ImagePull:
    image: str
    seconds: float
    size_bytes: int | None = None


class Reason(StrEnum):
    """Why an estimate has its value; the reason of the condition Measured."""

    MEASURED = "Measured"
    PRIOR_OF_PEERS = "PriorOfPeers"
    DEFAULT_PRIOR = "DefaultPrior"
    STALE = "Stale"  # its samples are too old to outweigh the peers


@dataclass(frozen=True, slots=True)
class NodeSpeedEstimate:
    """The estimate of one node, with its uncertainty."""

    node: str
    node_uid: str
    tau_create_s: float
    tau_create_rel_error: float
    samples: int  # containers
    source: SourceOfTau
    reason: Reason
    creating: int  # k_n of eq. (6): creations in progress, pulls not counted
    tau_resize_s: float | None = None
    image_pulls: tuple[ImagePull, ...] = ()  # most recent first
    last_sample_s: float | None = None  # monotonic time of the latest sample; None before the first
