"""Where measurements come from: watches of the API server, for now.

A source turns objects into facts (model.py) with their arrival time, and knows the age of its data. Facts
are small: no JSON of a pod is kept or queued.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from node_speed_probe.model import (
    Fact,
    NodeGone,
    NodeSeen,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
    PullEnded,
    PullStarted,
    Resources,
    Stage,
)
from node_speed_probe.pulls import pull_event
from surgekit.kube import pods as pod_objects
from surgekit.kube.checked import checked
from surgekit.kube.client import Kube
from surgekit.kube.pods import image_name
from surgekit.kube.quantity import QuantityError, parse
from surgekit.kube.table import Seen, Table, Unreadable
from surgekit.kube.watch import Watch

__all__ = ["ApiWatches", "Source", "Tell", "node_seen", "pod_seen", "pull_seen"]

Json = dict[str, Any]
T = TypeVar("T", bound=Fact)
Tell = Callable[[Fact, float], None]
# Leave out the kubelet's other Events on every pod: they would triple the stream.
_EVENTS = "involvedObject.kind=Pod,reason!=Scheduled,reason!=Created,reason!=Started,reason!=Killing"


class Source(Protocol):
    """Something that measures nodes. It may call `tell` from any thread."""

    def start(self, tell: Tell) -> None: ...

    def stop(self) -> None: ...

    def ages_s(self, now_s: float) -> Mapping[str, float]:
        """The age of the data by input; infinite before the first list."""


class ApiWatches:
    """Measures by arrival on the API watch, because API timestamps have whole seconds."""

    def __init__(self, kube: Kube, unreadable: Unreadable) -> None:
        self._kube, self._unreadable = kube, unreadable
        self._watches: dict[str, Watch] = {}

    def start(self, tell: Tell) -> None:
        unread = self._unreadable
        watch = Watch(self._kube, "/api/v1/nodes", _Nodes(unread, tell)).start()
        # Nodes first: a node's images must be known before its pods are measured.
        watch.synced.wait(timeout=30.0)
        self._watches = {
            "nodes": watch,
            "pods": Watch(
                self._kube, "/api/v1/pods", _Pods(unread, tell), fieldSelector="spec.nodeName!="
            ).start(),
            "events": Watch(
                self._kube, "/api/v1/events", _Events(unread, tell), fieldSelector=_EVENTS
            ).start(),
        }

    def stop(self) -> None:
        for watch in self._watches.values():
            watch.stop()

    def ages_s(self, now_s: float) -> dict[str, float]:
        names = ("nodes", "pods", "events")
        return {n: self._watches[n].age_s(now_s) if n in self._watches else float("inf") for n in names}


class _Facts(Table[T | None]):
    """Tells what it reads."""

    def __init__(self, unreadable: Unreadable, tell: Tell) -> None:
        super().__init__(unreadable)
        self._tell = tell

    def put(self, obj: Seen, says: T | None, arrival_s: float) -> None:  # noqa: ARG002
        if says is not None:
            self._tell(says, arrival_s)


class _Pods(_Facts[PodSeen]):
    def read(self, obj: Json) -> PodSeen | None:
        return pod_seen(obj)

    def listed(self, there: Sequence[Seen], arrival_s: float) -> None:
        unread = frozenset(pod.uid for pod in there if not pod.readable)
        self._tell(PodsListed(tuple(pod.says for pod in there if pod.says), unread), arrival_s)

    def drop(self, obj: Seen, arrival_s: float) -> None:
        self._tell(PodGone(obj.uid), arrival_s)


class _Nodes(_Facts[NodeSeen]):
    def read(self, obj: Json) -> NodeSeen:
        return node_seen(obj)

    def listed(self, there: Sequence[Seen], arrival_s: float) -> None:
        unread = frozenset(node.name for node in there if not node.readable)
        self._tell(NodesListed(tuple(node.says for node in there if node.readable), unread), arrival_s)

    def drop(self, obj: Seen, arrival_s: float) -> None:
        self._tell(NodeGone(obj.name), arrival_s)


class _Events(_Facts[PullStarted | PullEnded]):
    def read(self, obj: Json) -> PullStarted | PullEnded | None:
        return pull_seen(obj)

    def listed(self, there: Sequence[Seen], arrival_s: float) -> None:
        """Apply Events in the order of their timestamps, so that an ended pull does not begin again."""

        def order(event: Seen) -> tuple[str, bool]:
            return str(event.obj.get("lastTimestamp") or ""), isinstance(event.says, PullEnded)

        for event in sorted((event for event in there if event.says), key=order):
            self._tell(event.says, arrival_s)

    def drop(self, obj: Seen, arrival_s: float) -> None:
        """Nothing to do: Events expire."""


@checked
def pod_seen(obj: Json) -> PodSeen | None:
    """A bound pod, or None while it has no node."""
    spec, status, metadata = obj.get("spec") or {}, obj.get("status") or {}, obj["metadata"]
    node = spec.get("nodeName")
    if not node:
        return None
    stage, broken_by = _stage(obj, metadata, status)
    containers = spec.get("containers") or ()
    return PodSeen(
        uid=metadata["uid"],
        node=node,
        stage=stage,
        containers=len(containers) + len(spec.get("initContainers") or ()),
        images=pod_objects.images(obj),
        broken_by=broken_by,
        wanted=_resources(containers),
        actual=_resources(status.get("containerStatuses") or ()),
        resize_refused=any(
            c.get("type") == "PodResizePending" and c.get("status") == "True"
            for c in status.get("conditions") or ()
        ),
    )


def _stage(obj: Json, metadata: Json, status: Json) -> tuple[Stage, str]:
    progress = pod_objects.creation(obj)
    containers = status.get("containerStatuses") or ()
    if progress is pod_objects.Creation.STARTED:
        # A restarted container was created more than once.
        return Stage.STARTED, "Restarted" if any(c.get("restartCount") for c in containers) else ""
    if progress is pod_objects.Creation.FINISHED:
        return (Stage.STARTED, "") if status.get("phase") == "Succeeded" else (Stage.BROKEN, "Failed")
    initial = status.get("initContainerStatuses") or ()
    if progress is pod_objects.Creation.SET_ASIDE:
        return Stage.BROKEN, _waiting_for([*initial, *containers])
    if metadata.get("deletionTimestamp"):
        return Stage.BROKEN, "Deleted"
    sidecars = {
        c["name"] for c in obj["spec"].get("initContainers") or () if c.get("restartPolicy") == "Always"
    }
    runs = any("running" in (c.get("state") or {}) and c.get("name") not in sidecars for c in initial)
    return (Stage.RUNNING_INIT if runs else Stage.CREATING), ""


def _waiting_for(statuses: list[Json]) -> str:
    reasons = (((c.get("state") or {}).get("waiting") or {}).get("reason") for c in statuses)
    return next((r for r in reasons if r not in (None, "ContainerCreating", "PodInitializing")), "SetAside")


@checked
def node_seen(obj: Json) -> NodeSeen:
    listed = (obj.get("status") or {}).get("images") or ()
    images = frozenset(image_name(name) for image in listed for name in image.get("names") or ())
    return NodeSeen(obj["metadata"]["name"], obj["metadata"]["uid"], images)


@checked
def pull_seen(obj: Json) -> PullStarted | PullEnded | None:
    """The pull that an Event reports, or None."""
    about = obj.get("involvedObject") or {}
    node = (obj.get("source") or {}).get("host") or obj.get("reportingInstance") or ""
    return pull_event(obj.get("reason") or "", obj.get("message") or "", about.get("uid") or "", node)


def _resources(containers: Any) -> Resources:
    return tuple((str(c.get("name")), *_amounts(c.get("resources") or {})) for c in containers)


def _amounts(resources: Json) -> tuple[float, float, float, float]:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    cpu, memory = "cpu", "memory"
    return _amount(requests, cpu), _amount(requests, memory), _amount(limits, cpu), _amount(limits, memory)


def _amount(amounts: Json, name: str) -> float:
    try:
        return parse(amounts[name])
    except (KeyError, TypeError, QuantityError):
        return -1.0
