"""Reconciles KneePolicies: once a sampling interval observe the target, decide, apply, write the status.

One policy through the system: `kneepolicy` reads the object, `observe.target_observer` its target,
`observe.monitor` the target's metrics (one QueryBatch for all policies), `decision.decide` decides. The
decision is applied through the `scale` subresource, or left to the HPA that follows our metric. The status
keeps what the next decision needs.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import structlog

from hpa_replacement import kneepolicy
from hpa_replacement.conditions import REASONS, Refusal, condition, is_new, is_refusal, reason_of
from hpa_replacement.decision.decide import decide
from hpa_replacement.decision.model import Sample, Scaling, State
from hpa_replacement.decision.policy import PolicyError
from hpa_replacement.kneepolicy import KneePolicy, Via
from hpa_replacement.metrics import KneeScaleMetrics
from hpa_replacement.observe.monitor import Reading, read
from hpa_replacement.observe.observation import Observation, metrics_request, sample_of
from hpa_replacement.observe.sources import ClusterSource
from hpa_replacement.observe.target_observer import TargetObserver
from hpa_replacement.settings import Settings
from hpa_replacement.status import read_state, status_of
from hpa_replacement.target_owners import Owners, owners_of, target_key
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.events import Events
from surgekit.kube.scale import NotScalable, Scales
from surgekit.kube.status import patch_status
from surgekit.prometheus.client import Queries, QueryBatch
from surgekit.prometheus.query_lanes import Lanes

__all__ = ["ClusterAccess", "PolicyReconciler", "ReadPolicy"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
ReadPolicy = Callable[[Json], KneePolicy]  # raises PolicyError
_Due = tuple[Json, KneePolicy | Refusal]
_Observed = tuple[Json, Observation | Refusal]
_WORKERS = 8
_LANE_TIMEOUTS = 2  # all queries of one namespace together may take so many times the timeout of one
_INVALID_REQUEUE_S = 30.0  # how often an invalid policy is reported


@dataclass(slots=True)
class _Memory:
    """What one leader remembers of one policy."""

    reconciled: tuple[int, int] | None = None  # generation, number of the interval
    reason: str = ""  # of the condition
    state: State | None = None
    latency_s: float = 0.0  # of the last sample


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Where policies, targets and metrics are read from, and decisions are written to."""

    kube: Kube
    source: ClusterSource
    prometheus: Queries
    events: Events  # about KneePolicies


class PolicyReconciler:
    """Lives as long as this replica leads; the next leader starts from the statuses."""

    def __init__(
        self,
        settings: Settings,
        cluster: ClusterAccess,
        metrics: KneeScaleMetrics,
        leads: Callable[[], bool],
        read_policy: ReadPolicy = kneepolicy.read,
    ) -> None:
        self._kube, self._source, self._prometheus = cluster.kube, cluster.source, cluster.prometheus
        self._events = cluster.events
        self._settings, self._metrics, self._leads, self._read_policy = settings, metrics, leads, read_policy
        self._scales = Scales(self._kube)
        self._observer = TargetObserver(settings, self._source, self._scales)
        self._lanes = Lanes(
            self._prometheus, _LANE_TIMEOUTS * settings.prometheus_timeout_s, not settings.unconfined_promql
        )
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="policy")
        # By uid: a policy that is deleted and created again is another one.
        self._memories: dict[str, _Memory] = {}

    def stop(self) -> None:
        self._lanes.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def reconcile_due(self, now_s: float) -> float:
        """Reconcile the policies that are due; returns the seconds until the next one may be."""
        objects = self._source.policies()
        for gone in self._memories.keys() - {_uid(obj) for obj in objects}:
            del self._memories[gone]
        policies = [(obj, self._read(obj)) for obj in objects]
        due, sleep_s = [], 1.0
        for obj, policy in policies:
            interval_s = policy.policy.interval_s if isinstance(policy, KneePolicy) else _INVALID_REQUEUE_S
            number = math.floor(now_s / interval_s)
            sleep_s = min(sleep_s, (number + 1) * interval_s - now_s)
            current = (obj["metadata"].get("generation", 0), number)
            memory = self._memories.setdefault(_uid(obj), _Memory())
            # A namespace whose queries are still running delays its own policies only.
            if memory.reconciled != current and not self._lanes.busy(_namespace(obj)):
                memory.reconciled = current
                due.append((obj, policy))
        if due:
            with self._metrics.round_seconds.time():
                self._reconcile(due, owners_of(policies), now_s)
        return max(sleep_s, 0.01)

    def _read(self, obj: Json) -> KneePolicy | Refusal:
        try:
            return self._read_policy(obj)
        except PolicyError as error:
            return Refusal("InvalidPolicy", str(error))

    def _reconcile(self, due: Sequence[_Due], owners: Owners, now_s: float) -> None:
        observations = self._pool.map(lambda one: self._observe(one[0], one[1], owners, now_s), due)
        shared: list[_Observed] = []
        by_namespace: dict[str, list[_Observed]] = defaultdict(list)
        for (obj, _), observation in zip(due, observations, strict=True):
            request = metrics_request(observation)
            own_lane = request is not None and not request.shared
            (by_namespace[_namespace(obj)] if own_lane else shared).append((obj, observation))
        for namespace, observed in by_namespace.items():
            self._lanes.begin(namespace, now_s, partial(self._finish_all, observed, now_s, map))
        self._finish_all(shared, now_s, self._pool.map, QueryBatch(self._prometheus, now_s))

    def _observe(
        self, obj: Json, policy: KneePolicy | Refusal, owners: Owners, now_s: float
    ) -> Observation | Refusal:
        if isinstance(policy, Refusal):
            return policy
        try:
            owner = owners.get(target_key(policy.target), policy.key)
            latency_s = self._memories[_uid(obj)].latency_s
            observation = self._observer.observe(policy, owner, self._state(obj), latency_s, now_s)
            return replace(observation, inputs_at_s=self._inputs_at_s(time.monotonic()))
        except Refusal as refusal:
            return refusal
        except NotScalable as error:
            return Refusal("TargetNotScalable", str(error))
        except (ApiError, KubeUnreachable) as error:
            return Refusal("NoData", f"API server: {error}")
        except Exception as error:  # a bug met by one policy must not stop the others
            log.exception("observing the target failed", policy=policy.key)
            return Refusal("Failed", f"internal error: {error!r}")

    def _inputs_at_s(self, now_s: float) -> dict[str, float]:
        ages_s = self._source.ages_s(now_s)
        return {"sample": now_s, **{name: now_s - age_s for name, age_s in ages_s.items()}}

    def _state(self, obj: Json) -> State:
        """From memory, since the watch may lag behind; at first from the status an earlier leader wrote."""
        memory = self._memories[_uid(obj)]
        if memory.state is None:
            try:
                memory.state = read_state(obj.get("status") or {})
            except ValueError as error:
                log.warning("unreadable status ignored, starting anew", policy=_key(obj), error=str(error))
                memory.state = State()
        return memory.state

    def _finish_all(
        self,
        observed: Sequence[_Observed],
        now_s: float,
        each: Callable[..., Iterable[None]],
        batch: QueryBatch,
    ) -> None:
        """Query the metrics of these policies, then decide and write each."""
        requests = [request for _, observation in observed if (request := metrics_request(observation))]
        readings = read(batch, requests, self._settings.scrape_interval_s)

        def finish(one: _Observed) -> None:
            obj, observation = one
            self._finish(obj, observation, readings.get(_key(obj), ""), now_s)

        # Prometheus may have been slow: a policy deleted or changed meanwhile is reconciled again.
        current = {_version(obj) for obj in self._source.policies()}
        for _ in each(finish, [one for one in observed if _version(one[0]) in current]):
            pass
        reasons = [memory.reason for memory in list(self._memories.values())]
        for reason in REASONS:
            self._metrics.policies.labels(reason).set(reasons.count(reason))

    def _finish(
        self, obj: Json, observation: Observation | Refusal, reading: Reading | str, now_s: float
    ) -> None:
        if not self._leads():
            return  # the new leader decides
        try:
            if isinstance(observation, Refusal):
                self._write_status(obj, {}, observation.reason, str(observation), now_s)
            else:
                self._decide(obj, observation, reading, now_s)
        except (ApiError, KubeUnreachable) as error:
            self._metrics.failures.labels("status").inc()
            log.warning("status not written", policy=_key(obj), error=str(error))
        except Exception:  # a bug met by one policy must not stop the others
            self._metrics.failures.labels("decision").inc()
            log.exception("decision failed", policy=_key(obj))

    def _decide(self, obj: Json, observation: Observation, reading: Reading | str, now_s: float) -> None:
        policy, replicas = observation.policy, observation.scale.replicas
        sample = sample_of(observation, reading, now_s)
        ages_s = observation.ages_s(sample, time.monotonic())
        decision = decide(policy.policy, observation.state, sample, now_s, ages_s)
        reason, message = reason_of(policy.policy, decision, sample), "; ".join(decision.reasons)
        desired, shown = decision.action.replicas, decision.action.state.asked
        if desired is not None and desired != replicas:
            log.info(
                "decision", namespace=policy.namespace, policy=policy.name, mode=str(policy.mode),
                decision=reason, replicas=desired, before=replicas, why=message, inputs_age_s=ages_s,
            )  # fmt: skip
            if observation.hold_reason:
                decision = replace(decision, action=_if_not_applied(observation.state, decision.action))
                message = f"{message} (not carried out: {observation.hold_reason})"
            elif policy.via is Via.SCALE and (error := self._scale(obj, observation, desired, message)):
                reason, message = "TargetNotScalable", error
        memory = self._memories.setdefault(_uid(obj), _Memory())
        memory.state = decision.action.state
        measured = sample if isinstance(sample, Sample) else None
        if measured and measured.latency_s is not None:
            memory.latency_s = measured.latency_s
        status = status_of(decision, measured, replicas, now_s) | {"targetReplicas": shown}
        self._write_status(obj, status, reason, message, now_s)

    def _scale(self, obj: Json, observation: Observation, desired: int, message: str) -> str:
        """Why it could not be scaled; empty when it was."""
        try:
            self._scales.set(observation.policy.target, desired)
        except (NotScalable, ApiError) as error:
            self._metrics.failures.labels("scale").inc()
            return str(error)
        self._metrics.changes.inc()
        self._events.post(
            obj["metadata"], "Rescaled", f"{observation.scale.replicas} to {desired}: {message}"
        )
        return ""

    def _write_status(self, obj: Json, status: Json, reason: str, message: str, now_s: float) -> None:
        metadata, before = obj["metadata"], obj.get("status") or {}
        self._memories.setdefault(_uid(obj), _Memory()).reason = reason
        self._metrics.decisions.labels(reason).inc()
        if is_refusal(reason) and is_new(before, reason):
            self._events.post(metadata, reason, message, "Warning")
        generation = metadata.get("generation", 0)
        conditions = [condition(before, reason, message, generation, now_s)]
        whole = status | {"observedGeneration": generation, "conditions": conditions}
        if all(before.get(k) == v for k, v in whole.items()):
            return  # nothing changed
        # The next leader continues from it, so it must not get into a newer policy of the same name.
        patch_status(self._kube, kneepolicy.KNEE_POLICIES, metadata, whole)


def _if_not_applied(before: State, decided: Scaling) -> Scaling:
    """Keep the state of before: a search would take the present replicas for all the cluster can start."""
    now = decided.state
    kept = replace(
        before, decided_at_s=now.decided_at_s, spending=now.spending, idle_since_s=now.idle_since_s
    )
    return replace(decided, state=kept)


def _key(obj: Json) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _namespace(obj: Json) -> str:
    return str(obj["metadata"]["namespace"])


def _version(obj: Json) -> tuple[str, int]:
    return _uid(obj), obj["metadata"].get("generation", 0)


def _uid(obj: Json) -> str:
    return str(obj["metadata"]["uid"])
