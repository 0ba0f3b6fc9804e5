"""Keep the state of all nodes: facts go in, estimates come out.

Owned by one thread. Time is an argument.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from cluster_model.contention import CONTENTION
from node_speed_probe.creations import CreationTracker
from node_speed_probe.estimator import SAMPLES_KEPT, Prior, Tau, estimate_tau, prior_of_peers, recent_mean_s
from node_speed_probe.model import (
    CreationMeasured,
    Fact,
    ImagePull,
    NodeGone,
    NodeSeen,
    NodesListed,
    NodeSpeedEstimate,
    Outcome,
    PodGone,
    PodSeen,
    PodsListed,
    PullEnded,
    Reason,
    Sample,
)
from node_speed_probe.resizes import ResizeTracker
from node_speed_probe.settings import Settings

__all__ = ["Ledger", "Snapshot"]

_RESIZES_KEPT = 8
_PULLS_KEPT = 10
_WATCH_LAG_S = 5.0  # a pod may be seen this much later than its kubelet saw it


@dataclass(frozen=True, slots=True)
class _Bound:
    node: str
    images: tuple[str, ...]
    seen_s: float  # first

    def may_have_pulled(self, pull: PullEnded, now_s: float) -> bool:
        """Whoever may write Events in one namespace can claim any pull, on any node, of any length. Believe
        what its own pod can have waited for."""
        longest_s = now_s - self.seen_s + _WATCH_LAG_S
        here = pull.node == self.node and pull.image in self.images
        return here and pull.seconds is not None and pull.seconds <= longest_s


@dataclass(slots=True)
class _Record:
    uid: str = ""
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))
    resizes: deque[Sample] = field(default_factory=lambda: deque(maxlen=_RESIZES_KEPT))
    pulls: dict[str, ImagePull] = field(default_factory=dict)  # oldest first
    mean_s: float | None = None  # mean of its own samples; None unless they are recent enough to count
    estimate: NodeSpeedEstimate | None = None
    estimated_s: float = -float("inf")
    touched: bool = True


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The estimates at one time, for other threads to read."""

    taken_s: float = -float("inf")
    estimates: tuple[NodeSpeedEstimate, ...] = ()
    samples_total: int = 0
    aborted_total: Mapping[str, int] = field(default_factory=dict)


class Ledger:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        contention = CONTENTION[settings.contention]
        self._creations = CreationTracker(contention, self._tau_s)
        self._resizes = ResizeTracker(contention.resize)
        self._nodes: dict[str, _Record] = {}
        self._bound: dict[str, _Bound] = {}  # by pod's uid
        self._prior = prior_of_peers((), settings)
        self._samples_total = 0
        self._aborted_total: Counter[str] = Counter()

    def observe(self, fact: Fact, now_s: float) -> None:
        """Apply one fact."""
        match fact:
            case NodeSeen():
                self._see(fact)
            case NodeGone():
                self._nodes.pop(fact.name, None)
            case NodesListed():
                kept = {n.name for n in fact.nodes} | fact.unread
                self._nodes = {name: r for name, r in self._nodes.items() if name in kept}
                for node in fact.nodes:
                    self._see(node)
            case PodSeen():
                self._bind(fact, now_s)
            case PodGone():
                self._bound.pop(fact.uid, None)
            case PodsListed():
                there = {pod.uid for pod in fact.pods} | fact.unread
                self._bound = {uid: pod for uid, pod in self._bound.items() if uid in there}
                for pod in fact.pods:
                    self._bind(pod, now_s)
            case PullEnded():
                self._pulled(fact, now_s)
        for outcome in self._creations.observe(fact, now_s):
            self._count(outcome)
        resized = self._resizes.observe(fact, now_s)
        if resized and (record := self._nodes.get(resized[0])):
            record.resizes.append(resized[1])
            record.touched = True

    def remember(
        self, node: str, creations: Sample, resize: Sample | None, pulls: tuple[ImagePull, ...]
    ) -> None:
        """Start from what was known about a node, until new samples outweigh it."""
        record = self._nodes.setdefault(node, _Record())
        if not record.samples and creations.containers > 0:
            record.samples.append(creations)
        if not record.resizes and resize is not None:
            record.resizes.append(resize)
        record.pulls = {p.image: p for p in reversed(pulls)} | record.pulls

    def snapshot(self, now_s: float) -> Snapshot:
        """Look for stalled creations, then return the current estimates."""
        for outcome in self._creations.tick(self._settings.hung_after_s, now_s):
            self._count(outcome)
        return Snapshot(now_s, self.estimates(now_s), self._samples_total, dict(self._aborted_total))

    def estimates(self, now_s: float) -> tuple[NodeSpeedEstimate, ...]:
        """The current estimate of every node that exists."""
        due = [(n, r) for n, r in self._nodes.items() if self._due(n, r, now_s)]
        for _, record in due:
            record.mean_s = recent_mean_s(record.samples, self._settings, now_s)
        peers = [r.mean_s for r in self._nodes.values() if r.mean_s is not None and _counts_as_peer(r)]
        prior = prior_of_peers(peers, self._settings)
        # Every estimate depends on the prior, but most so little that a change of 1 % does not matter.
        if (
            prior.reason != self._prior.reason
            or abs(prior.tau_s - self._prior.tau_s) > 0.01 * self._prior.tau_s
        ):
            self._prior, due = prior, list(self._nodes.items())
        for name, record in due:
            record.estimate = self._estimate(name, record, self._prior, now_s)
            record.estimated_s, record.touched = now_s, False
        return tuple(r.estimate for r in self._nodes.values() if r.estimate is not None and r.uid)

    def _see(self, node: NodeSeen) -> None:
        record = self._nodes.setdefault(node.name, _Record())
        if record.uid and record.uid != node.uid:  # another machine with the same name
            record = self._nodes[node.name] = _Record()
        record.uid = node.uid

    def _bind(self, pod: PodSeen, now_s: float) -> None:
        if pod.uid not in self._bound:
            self._bound[pod.uid] = _Bound(pod.node, pod.images, now_s)

    def _pulled(self, pull: PullEnded, now_s: float) -> None:
        record, pod = self._nodes.get(pull.node), self._bound.get(pull.pod_uid)
        if record is None or pull.seconds is None or pod is None or not pod.may_have_pulled(pull, now_s):
            return
        record.pulls.pop(pull.image, None)
        record.pulls[pull.image] = ImagePull(pull.image, pull.seconds, pull.size_bytes)
        if len(record.pulls) > _PULLS_KEPT:
            del record.pulls[next(iter(record.pulls))]
        record.touched = True

    def _count(self, outcome: Outcome) -> None:
        if not isinstance(outcome, CreationMeasured):
            self._aborted_total[outcome.reason] += 1
        elif record := self._nodes.get(outcome.node):
            self._samples_total += 1
            record.samples.append(outcome.sample)
            record.touched = True

    def _due(self, name: str, record: _Record, now_s: float) -> bool:
        """Whether the estimate can have changed. Of 5,000 quiet nodes most cannot."""
        old = now_s - record.estimated_s > self._settings.half_life_s / 10
        return record.touched or old or self._creations.in_progress(name) > 0 or _was_creating(record)

    def _tau_s(self, node: str) -> float:
        record = self._nodes.get(node)
        return record.estimate.tau_create_s if record and record.estimate else self._prior.tau_s

    def _estimate(self, name: str, record: _Record, prior: Prior, now_s: float) -> NodeSpeedEstimate:
        tau: Tau = estimate_tau(
            record.samples, self._creations.unfinished(name, now_s), prior, self._settings, now_s
        )
        return NodeSpeedEstimate(
            node=name,
            node_uid=record.uid,
            tau_create_s=tau.value_s,
            tau_create_rel_error=tau.rel_error,
            samples=sum(sample.containers for sample in record.samples),
            source="measured" if tau.reason is Reason.MEASURED else "prior",
            reason=tau.reason,
            creating=self._creations.creating(name),
            tau_resize_s=recent_mean_s(record.resizes, self._settings, now_s),
            image_pulls=tuple(reversed(record.pulls.values())),
            last_sample_s=record.samples[-1].ended_s if record.samples else None,
        )


def _counts_as_peer(record: _Record) -> bool:
    return record.estimate is None or record.estimate.reason is not Reason.STALE


def _was_creating(record: _Record) -> bool:
    return record.estimate is not None and record.estimate.creating > 0
