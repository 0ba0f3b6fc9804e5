"""Answer one /prioritize request: bytes of ExtenderArgs in, bytes of HostPriorityList out.

This is the hot path. It reads tables that the watches keep ready, decides, assumes the pod on the best
node, and answers. `prepare` follows while the scheduler goes on. `tick` does what can wait: metrics and logs.
"""

from __future__ import annotations

import platform
import threading
import time
from collections import OrderedDict
from dataclasses import asdict
from itertools import islice, takewhile
from typing import Any

import orjson
import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cluster_model.cluster_state import ClusterState
from cluster_model.contention import CONTENTION
from cluster_model.model import PodToPlace
from cluster_model.node_table import NodeTable
from cluster_model.price_list import PriceLists
from scheduler_extender import opt_in
from scheduler_extender.decision import Cluster, decide
from scheduler_extender.model import HIGHEST_SCORE, Placement, PlacementRequest
from scheduler_extender.requests import parse
from scheduler_extender.settings import Settings
from scheduler_extender.sources import NO_NAMESPACE, Sources
from surgekit.decision import Decision
from surgekit.kube.client import Kube
from surgekit.kube.events import EventRecorder
from surgekit.kube.pods import images, requests
from surgekit.kube.table import Unreadable
from surgekit.process.modes import Mode

__all__ = ["Extender"]

log = structlog.get_logger(__name__)
NEUTRAL = b"[]"  # nodes left out of the answer score 0
SCORES = range(HIGHEST_SCORE, 0, -1)


class Metrics:
    """surgekit_extender_*. A pod's name is never a label."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.seconds = Histogram(
            "surgekit_extender_prioritize_seconds",
            "Time from the body of a /prioritize request to its answer",
            buckets=(1e-4, 2e-4, 3e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 5e-2, 0.2, 1.0),
            registry=registry,
        )
        self.decisions = Counter(
            "surgekit_extender_decisions_total",
            "Answers by mode and outcome (scored, neutral, outside, refused)",
            ["mode", "outcome"],
            registry=registry,
        )
        self.expired = Counter(
            "surgekit_extender_assumed_pods_expired_total",
            "Assumed pods whose binding was never seen",
            registry=registry,
        )
        self.objects = Gauge(
            "surgekit_extender_cached_objects", "Objects in the cache", ["kind"], registry=registry
        )
        self.age = Gauge(
            "surgekit_extender_input_age_seconds", "Age of each watched input", ["source"], registry=registry
        )


class Extender:
    """The state of one replica. Threads may call it concurrently; a lock guards the tables."""

    def __init__(self, settings: Settings, kube: Kube) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        nodes = NodeTable(
            settings.default_tau_create_s,
            settings.default_image_pull_s,
            seed=platform.node(),
            contention=CONTENTION[settings.contention],
        )
        self.state = ClusterState(nodes, settings.assumed_pod_ttl_s, settings.creation_limit_s)
        self._price_lists = PriceLists(nodes)
        self.events = EventRecorder(kube, "extender")
        unreadable = Unreadable(self.events)
        self.sources = Sources(kube, unreadable, self.state)
        self.registry = CollectorRegistry()
        self.registry.register(unreadable)
        self.metrics = Metrics(self.registry)
        self._recent: OrderedDict[str, Decision[Placement]] = OrderedDict()  # pod uid -> its latest decision
        self._unseen: list[tuple[Decision[Placement], float]] = []  # not yet in metrics and log

    def prioritize(self, body: bytes) -> bytes:
        """The answer to /prioritize, neutral in doubt. Raises one of requests.BAD_REQUEST."""
        with self._lock:
            started = time.perf_counter()
            now_s = time.monotonic()
            self.sources.apply()
            self.state.expire(now_s)
            decision = self._decide(body, now_s)
            if decision is None:
                return NEUTRAL
            answer, placement = NEUTRAL, decision.action
            if decision.valid and placement.mode is Mode.ENFORCE:
                self.state.assume(placement.pod, placement.ranked[0].node, now_s)
                scored = zip(placement.ranked, SCORES, strict=False)
                answer = orjson.dumps([{"Host": terms.node, "Score": score} for terms, score in scored])
            self._unseen.append((decision, time.perf_counter() - started))
            return answer

    def prepare(self) -> None:
        """After an answer: what the next request would wait for."""
        with self._lock:
            self.sources.apply()
            self._price_lists.catch_up()

    def _decide(self, body: bytes, now_s: float) -> Decision[Placement] | None:
        """The decision, or None for a pod that did not opt in."""
        args = parse(body)
        meta, spec = args.pod["metadata"], args.pod.get("spec") or {}
        namespace = self.sources.namespaces.get(meta.get("namespace") or "", NO_NAMESPACE)
        mode = opt_in.mode_for(
            meta.get("labels") or {},
            namespace.labels,
            spec.get("schedulerName") or "",
            self.settings.mode,
            self.settings.scheduler_name,
        )
        if mode is Mode.OFF:
            self.metrics.decisions.labels(mode, "outside").inc()
            return None
        overrides, complaints = opt_in.overrides(meta.get("annotations") or {}, namespace.annotations)
        for complaint in complaints:
            where = {"namespace": meta.get("namespace"), "pod": meta.get("name")}
            log.warning("annotation ignored", **where, error=complaint)
        cpu_millicores, memory_bytes = requests(args.pod)
        pod = PodToPlace(
            uid=meta["uid"],
            namespace=str(meta.get("namespace")),
            name=str(meta.get("name")),
            cpu_millicores=cpu_millicores,
            memory_bytes=memory_bytes,
            containers=len(spec.get("containers") or ()),
            images=images(args.pod),
            concurrency=overrides.concurrency,
        )
        self.state.forget(pod.uid)
        request = PlacementRequest(pod, args.node_names, mode, overrides)
        cluster = Cluster(self.state.nodes, self._price_lists, self.sources.age_s(now_s))
        return decide(request, cluster, self.settings, time.time())

    def tick(self) -> None:
        """Between requests: apply changes, expire assumed pods, write metrics and logs."""
        with self._lock:
            now_s = time.monotonic()
            self.sources.apply()
            self.state.nodes.forget_old_speeds(now_s - self.settings.max_speed_age_s)
            if expired := self.state.expire(now_s):
                self.metrics.expired.inc(expired)
            self._digest()

    def _digest(self) -> None:
        unseen, self._unseen = self._unseen, []
        for decision, seconds in unseen:
            placement = decision.action
            self._recent[placement.pod.uid] = decision
            self._recent.move_to_end(placement.pod.uid)
            if len(self._recent) > self.settings.decisions_kept:
                self._recent.popitem(last=False)
            self.metrics.seconds.observe(seconds)
            self.metrics.decisions.labels(placement.mode, "scored" if decision.valid else "neutral").inc()
            # A log line costs as much as the decision, so valid decisions are logged at DEBUG only.
            (log.debug if decision.valid else log.warning)(
                "pod scored",
                namespace=placement.pod.namespace,
                pod=placement.pod.name,
                node=placement.ranked[0].node if placement.ranked else None,
                decision="; ".join(decision.reasons),
                mode=placement.mode,
                duration_ms=round(seconds * 1e3, 3),
            )

    def observe(self) -> None:
        """Update the gauges."""
        with self._lock:
            self._digest()
            now_s = time.monotonic()
            ages = self.sources.age_s(now_s) | {"speeds": self.sources.speeds_age_s(now_s)}
            for source, age in ages.items():
                self.metrics.age.labels(source).set(age)
            for kind, count in self.state.counts.items():
                self.metrics.objects.labels(kind).set(count)

    def explain(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The latest decision about the pod of that name."""
        with self._lock:
            self._digest()
            for decision in reversed(self._recent.values()):
                pod = decision.action.pod
                if pod.namespace == namespace and pod.name == name:
                    return _explained(decision, self.state.node_of(pod.uid))
        return None

    def explain_since(self, since_s: float, most: int) -> list[dict[str, Any]]:
        """The latest decision about each pod, if it was made after this Unix time: the newest, in order."""
        with self._lock:
            self._digest()
            later = takewhile(lambda d: d.action.decided_at > since_s, reversed(self._recent.values()))
            found = [
                (decision, self.state.node_of(decision.action.pod.uid)) for decision in islice(later, most)
            ]
        return [_explained(decision, bound_to) for decision, bound_to in reversed(found)]


def _explained(decision: Decision[Placement], bound_to: str | None) -> dict[str, Any]:
    placement = decision.action
    return {
        "pod": asdict(placement.pod),
        "mode": placement.mode,
        "valid": decision.valid,
        "reasons": decision.reasons,
        "decided_at": placement.decided_at,
        "price_weight": placement.prices.price_weight,
        "price_swing": placement.prices.price_swing,
        "nodes_offered": placement.nodes_offered,
        "inputs_age_s": decision.inputs_age_s,
        "candidates": [asdict(c) for c in placement.candidates()],
        "bound_to": bound_to,
    }
