"""The node model: how long pods take to be created when they share a node.

ComboFunc fig. 2, 4 and 5: the time to create containers on a node grows with how many are being
created there, not with their size, and nodes do not disturb each other. That is processor sharing:
while k pods are being created on a node, each progresses at c/k of its speed, where c of them may run
side by side (`kwok.physics.Physics`; c = 1 in the paper). A pod of m containers is more work than one
container, by less than m; a share of it, its latency, need not contend. The first use of an image on a node
waits for its pull; a kubelet pulls one image at a time, and pods share the pull. A resize in
place takes tau_u alone once the node has room for it (`kwok.node_model_room`); resizes share like creations.

Pure: time is an argument, nothing here waits. `kwok.node_model_process` runs it against a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from kwok.node_model_room import Amount, Rooms
from kwok.processor_sharing import ProcessorSharing
from kwok.scenario import Scenario, tagged

__all__ = [
    "Created", "Event", "NodeModel", "PullStarted", "Pulled", "ResizeFailed", "ResizePending",
    "ResizeStarted", "Resized",
]  # fmt: skip


@dataclass(frozen=True)
class Event:
    """Something that happened on a node at a time."""

    at_s: float
    node: str
    pod: str


@dataclass(frozen=True)
class PullStarted(Event):
    image: str


@dataclass(frozen=True)
class Pulled(Event):
    image: str
    pull_s: float
    waited_s: float  # the pull itself, and earlier pulls in the queue


@dataclass(frozen=True)
class Created(Event):
    pass


@dataclass(frozen=True)
class ResizePending(Event):
    generation: int
    reason: str  # Deferred or Infeasible
    message: str


@dataclass(frozen=True)
class ResizeStarted(Event):
    generation: int


@dataclass(frozen=True)
class Resized(Event):
    generation: int


@dataclass(frozen=True)
class ResizeFailed(Event):
    """Granted and tried, but the memory to be taken away is in use."""

    generation: int
    message: str


@dataclass
class _Pull:
    image: str
    pod: str  # the pod that caused it
    asked_s: float
    start_s: float
    end_s: float
    announced: bool = False


@dataclass
class _Waiting:
    """A pod that waits for its images."""

    pod: str
    work: float
    missing: set[str]


@dataclass
class _Node:
    creating: ProcessorSharing
    resizing: ProcessorSharing
    images: set[str] = field(default_factory=set)
    pulls: list[_Pull] = field(default_factory=list)  # one at a time, in order
    waiting: dict[str, _Waiting] = field(default_factory=dict)
    resized_to: dict[str, int] = field(default_factory=dict)  # pod that is being resized -> generation
    due_s: float = math.inf  # next_s() as of the last change

    def next_s(self) -> float:
        pull = self.pulls[0] if self.pulls else None
        return min(
            self.creating.next_step_s(),
            math.inf if pull is None else pull.end_s if pull.announced else pull.start_s,
            self.resizing.next_step_s(),
        )


class NodeModel:
    """All nodes of a lab. Report pods that arrive and leave; read what happened."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._nodes: dict[str, _Node] = {}
        self._where: dict[str, str] = {}
        self._rooms = Rooms()
        self._generation: dict[str, int] = {}  # of the newest resize, by pod
        self._why_not: dict[str, str] = {}  # pod -> why its resize cannot be carried out
        self._failed: set[str] = set()  # pods whose granted resize failed
        self._happened: list[Event] = []

    def allocatable(self, node: str, amount: Amount) -> None:
        """Set a node's allocatable. A node without one has room for everything."""
        self._rooms.allocatable(node, amount)

    def hold(self, pod: str, node: str, amount: Amount) -> None:
        """A pod takes this much of its node until it is gone; a known pod is ignored."""
        self._rooms.hold(pod, node, amount)

    def bind(self, pod: str, node: str, containers: int, images: Iterable[str], now_s: float) -> None:
        """A pod arrives on a node; a known pod is ignored."""
        if pod in self._where:
            return
        place = self._at(node, now_s)
        self._where[pod] = node
        missing = {tagged(image) for image in images} - place.images
        work = self._scenario.physics.work(containers) * self._scenario.luck(pod)
        for image in sorted(missing):
            if self._scenario.image(image).pull_s == 0:
                # Also a pull: the node lists the image from now on. It does not queue.
                place.images.add(image)
                missing.discard(image)
                self._happened.append(PullStarted(now_s, node, pod, image))
                self._happened.append(Pulled(now_s, node, pod, image, 0.0, 0.0))
            elif all(pull.image != image for pull in place.pulls):
                start_s = max([now_s, *(pull.end_s for pull in place.pulls)])
                end_s = start_s + self._scenario.image(image).pull_s
                place.pulls.append(_Pull(image, pod, now_s, start_s, end_s))
        if missing:
            place.waiting[pod] = _Waiting(pod, work, missing)
        else:
            place.creating.add(pod, work, now_s)
        self._advance_node(node, now_s)

    def resize(
        self, pod: str, node: str, generation: int, now_s: float, amount: Amount | None = None
    ) -> None:
        """A pod asks for `amount` in place. A newer generation that is granted starts over.

        A resize in progress goes on while a newer one waits. A generation seen before is ignored.
        """
        self._at(node, now_s)
        if generation <= self._generation.get(pod, -1):
            return
        self._generation[pod] = generation
        refusal = None if amount is None else self._rooms.ask(pod, node, amount)
        if refusal:
            said = refusal.reason, refusal.message
            self._happened.append(ResizePending(now_s, node, pod, generation, *said))
            self._failed.discard(pod)
        else:
            self._start_resize(pod, node, now_s)
            self._retry(node, now_s)

    def uses_memory(self, pod: str, node: str, why_not: str, now_s: float) -> None:
        """Set why the latest resize cannot be carried out; empty if it can.

        A resize that failed is retried as soon as it can be carried out (a kubelet retries every few
        seconds).
        """
        self._at(node, now_s)
        self._why_not[pod] = why_not
        if not why_not and pod in self._failed:
            self._failed.discard(pod)
            self._begin_resize(pod, node, now_s)

    def cancel(self, pod: str, node: str, now_s: float) -> None:
        """Stop working on a pod. A pull that it caused goes on."""
        place = self._at(node, now_s)
        place.creating.remove(pod, now_s)
        place.waiting.pop(pod, None)
        place.resizing.remove(pod, now_s)
        place.resized_to.pop(pod, None)
        place.due_s = place.next_s()
        self._where.pop(pod, None)
        self._rooms.forget_asked(pod)

    def gone(self, pod: str, node: str, now_s: float) -> None:
        """A pod is deleted: its resources are free."""
        self.cancel(pod, node, now_s)
        self._generation.pop(pod, None)
        self._why_not.pop(pod, None)
        self._failed.discard(pod)
        self._rooms.release(pod)
        self._retry(node, now_s)

    def _retry(self, node: str, now_s: float) -> None:
        for pod in self._rooms.retry(node):
            self._start_resize(pod, node, now_s)

    def _start_resize(self, pod: str, node: str, now_s: float) -> None:
        self._failed.discard(pod)
        self._happened.append(ResizeStarted(now_s, node, pod, self._generation[pod]))
        self._begin_resize(pod, node, now_s)

    def _begin_resize(self, pod: str, node: str, now_s: float) -> None:
        place = self._nodes[node]
        generation = self._generation[pod]
        place.resizing.add(pod, self._scenario.luck(f"{pod}/{generation}"), now_s)
        place.resized_to[pod] = generation
        place.due_s = place.next_s()

    def has_image(self, node: str, image: str) -> None:
        """The node had this image before the model started."""
        self._at(node, -math.inf).images.add(tagged(image))

    def images(self, node: str) -> list[str]:
        return sorted(self._nodes[node].images) if node in self._nodes else []

    def creating(self, node: str) -> int:
        """k_n: how many pods share the node's speed now."""
        return len(self._nodes[node].creating) if node in self._nodes else 0

    def next_event_s(self) -> float:
        """When to look again: no event happens before, if no pod arrives or leaves."""
        return min((place.due_s for place in self._nodes.values()), default=math.inf)

    def advance(self, now_s: float) -> list[Event]:
        """All events up to now that were not returned yet, in order of time."""
        for node, place in self._nodes.items():
            if place.due_s <= now_s:
                self._advance_node(node, now_s)
        happened, self._happened = sorted(self._happened, key=lambda event: event.at_s), []
        return happened

    def _at(self, node: str, now_s: float) -> _Node:
        if node not in self._nodes:
            scenario, physics = self._scenario, self._scenario.physics
            self._nodes[node] = _Node(
                ProcessorSharing(
                    lambda at_s: scenario.tau_create_s(node, at_s),
                    lambda at_s: scenario.next_change_s(node, at_s),
                    physics.creations_side_by_side,
                    physics.creation_latency,
                ),
                ProcessorSharing(
                    lambda _: scenario.tau_resize_s(node),
                    side_by_side=physics.resizes_side_by_side,
                    latency=physics.resize_latency,
                ),
            )
        self._advance_node(node, now_s)
        return self._nodes[node]

    def _advance_node(self, node: str, now_s: float) -> None:
        place = self._nodes[node]
        while (next_s := place.next_s()) <= now_s:
            for at_s, pod in place.creating.advance(next_s):
                self._happened.append(Created(at_s, node, pod))
            for at_s, pod in place.resizing.advance(next_s):
                self._happened.append(self._actuated(at_s, node, pod, place.resized_to.pop(pod)))
            self._advance_pull(node, place, next_s)
        place.creating.advance(now_s)
        place.resizing.advance(now_s)
        place.due_s = next_s

    def _actuated(self, at_s: float, node: str, pod: str, generation: int) -> Event:
        if why_not := self._why_not.get(pod):
            self._failed.add(pod)
            return ResizeFailed(at_s, node, pod, generation, why_not)
        return Resized(at_s, node, pod, generation)

    def _advance_pull(self, node: str, place: _Node, now_s: float) -> None:
        if not place.pulls:
            return
        pull = place.pulls[0]
        if not pull.announced and pull.start_s <= now_s:
            pull.announced = True
            self._happened.append(PullStarted(pull.start_s, node, pull.pod, pull.image))
        if pull.announced and pull.end_s <= now_s:
            place.pulls.pop(0)
            place.images.add(pull.image)
            times = (pull.end_s - pull.start_s, pull.end_s - pull.asked_s)
            self._happened.append(Pulled(pull.end_s, node, pull.pod, pull.image, *times))
            for pod in list(place.waiting.values()):
                pod.missing.discard(pull.image)
                if not pod.missing:
                    del place.waiting[pod.pod]
                    place.creating.add(pod.pod, pod.work, pull.end_s)
