"""One round: for every policy whose interval is over, look, decide, carry out, write down.

One policy through the system: its object is read (`kneepolicy`), its target's scale and pods are looked at,
what it did is asked of Prometheus (`monitor`, all policies together), Algorithm 2 decides (`scaling`), the
decision is carried out through `scale` or left to the HPA that follows our metric, and all of it is written
into the status.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from hpa_replacement import kneepolicy
from hpa_replacement.conditions import REASONS, Refusal, condition, is_new, is_refusal, reason_of
from hpa_replacement.decision import decide as scaling
from hpa_replacement.decision.model import Decision, Sample, State
from hpa_replacement.decision.policy import PolicyError
from hpa_replacement.kneepolicy import KneePolicy, Via
from hpa_replacement.metrics import KneeScaleMetrics
from hpa_replacement.observe.cluster_state import Replica
from hpa_replacement.observe.monitor import Reading, read
from hpa_replacement.observe.observation import Look, asked, clean_window_s, sample_of
from hpa_replacement.observe.sources import ClusterSource
from hpa_replacement.settings import Settings
from hpa_replacement.status import read_state, status_of
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.events import Events
from surgekit.kube.scale import NotScalable, Scale, Scales
from surgekit.kube.scale_target import ScaleTarget
from surgekit.process.modes import Mode
from surgekit.prometheus.client import Queries, QueryBatch
from surgekit.prometheus.query_lanes import Lanes

__all__ = ["Rounds"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
_Looked = tuple[Json, Look | Refusal]
_AT_ONCE = 8
_TIMEOUTS = 2  # of a query: as long may the queries of one namespace take together
_INVALID_S = 30.0  # how often a policy that cannot be read is told so


class Rounds:
    """Of one term as the leader."""

    def __init__(
        self,
        settings: Settings,
        kube: Kube,
        source: ClusterSource,
        prometheus: Queries,
        metrics: KneeScaleMetrics,
        allowed: Callable[[], bool],
    ) -> None:
        self._settings, self._kube, self._source, self._prometheus = settings, kube, source, prometheus
        self._metrics, self._allowed = metrics, allowed
        self._scales = Scales(kube)
        self._events = Events(kube, "kneescale", "surgekit.dev/v1alpha1", "KneePolicy")
        self._lanes = Lanes(
            prometheus, _TIMEOUTS * settings.prometheus_timeout_s, not settings.unconfined_promql
        )
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="policy")
        # By uid of the policy: a policy that is deleted and made again is another one.
        self._answered: dict[str, tuple[int, int]] = {}  # generation, number of the interval
        self._reasons: dict[str, str] = {}
        self._states: dict[str, State] = {}
        self._latency_s: dict[str, float] = {}  # of the last sample

    def stop(self) -> None:
        self._lanes.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def round(self, now_s: float) -> float:
        """Answer what is due; seconds until something is due again."""
        objects = self._source.policies()
        self._forget({_uid(obj) for obj in objects})
        policies = [(obj, _read(obj)) for obj in objects]
        due, sleep_s = [], 1.0
        for obj, policy in policies:
            interval_s = policy.policy.interval_s if isinstance(policy, KneePolicy) else _INVALID_S
            number = math.floor(now_s / interval_s)
            sleep_s = min(sleep_s, (number + 1) * interval_s - now_s)
            answer = (obj["metadata"].get("generation", 0), number)
            # What a namespace still waits for holds up that namespace only.
            if self._answered.get(_uid(obj)) != answer and not self._lanes.busy(_namespace(obj)):
                self._answered[_uid(obj)] = answer
                due.append((obj, policy))
        if due:
            with self._metrics.round_seconds.time():
                self._answer(due, _oldest(policies), now_s)
        return max(sleep_s, 0.01)

    def _forget(self, there: set[str]) -> None:
        of_each: tuple[dict[str, Any], ...] = (self._answered, self._reasons, self._states, self._latency_s)
        for known in of_each:
            for gone in known.keys() - there:
                del known[gone]

    def _answer(
        self, due: Sequence[tuple[Json, KneePolicy | Refusal]], oldest: Mapping[Any, str], now_s: float
    ) -> None:
        looks = list(self._pool.map(lambda one: self._look(one[0], one[1], oldest, now_s), due))
        together: list[_Looked] = []
        by_namespace: dict[str, list[_Looked]] = defaultdict(list)
        for (obj, _), look in zip(due, looks, strict=True):
            apart = isinstance(look, Look) and not look.missing and not asked(look).common
            (by_namespace[_namespace(obj)] if apart else together).append((obj, look))
        for namespace, of_one in by_namespace.items():
            self._lanes.begin(namespace, now_s, partial(self._finish_all, of_one, now_s, map))
        self._finish_all(together, now_s, self._pool.map, QueryBatch(self._prometheus, now_s))

    def _finish_all(
        self, looked: Sequence[_Looked], now_s: float, each: Callable[..., Iterable[None]], batch: QueryBatch
    ) -> None:
        """Ask Prometheus for these, then decide and write each."""
        questions = [asked(look) for _, look in looked if isinstance(look, Look) and not look.missing]
        readings = read(batch, questions, self._settings.scrape_interval_s)

        def finish(of: _Looked) -> None:
            obj, look = of
            self._finish(obj, look, readings.get(_key(obj), ""), now_s)

        # Prometheus may have been slow: what was deleted or changed meanwhile is looked at anew.
        there = {_version(obj) for obj in self._source.policies()}
        for _ in each(finish, [of for of in looked if _version(of[0]) in there]):
            pass
        reasons = list(self._reasons.values())
        for reason in REASONS:
            self._metrics.policies.labels(reason).set(reasons.count(reason))

    def _look(
        self, obj: Json, policy: KneePolicy | Refusal, oldest: Mapping[Any, str], now_s: float
    ) -> Look | Refusal:
        if isinstance(policy, Refusal):
            return policy
        try:
            return self._looked(obj, policy, oldest, now_s)
        except Refusal as refusal:
            return refusal
        except NotScalable as error:
            return Refusal("TargetNotScalable", str(error))
        except (ApiError, KubeUnreachable) as error:
            return Refusal("NoData", f"API server: {error}")
        except Exception as error:  # one policy's fault must not keep the others from their decisions
            log.exception("policy failed", policy=policy.key)
            return Refusal("Failed", f"a fault of the controller: {error!r}")

    def _looked(self, obj: Json, policy: KneePolicy, oldest: Mapping[Any, str], now_s: float) -> Look:
        aside = self._aside(policy, oldest)
        target, interval_s = policy.target, policy.policy.interval_s
        scale = self._scales.get(target)
        replicas, since_s = self._source.replicas(target.namespace, scale.selector)
        serving = [replica for replica in replicas if replica.serves]
        pods = frozenset(replica.name for replica in serving)
        look = Look(policy, self._state(obj), scale, pods, since_s, interval_s, aside=aside)
        if not serving:
            return replace(look, missing=f"no pod of {target.kind} {target.name} is Ready")
        # Requests that wait in the pods there were before stay there: they are let go first. Queues of few
        # pods are uneven, so some take twice the average.
        since_s += 2 * self._latency_s.get(_uid(obj), 0.0)
        ready, capacity = self._counted(policy, scale, replicas)
        return replace(
            look,
            unchanged_since_s=since_s,
            window_s=clean_window_s(interval_s, now_s - since_s, self._settings.scrape_interval_s),
            ready_replicas=ready,
            requested_cores=sum(replica.cpu_millicores for replica in serving) / 1000,
            capacity=capacity,
        )

    def _counted(self, policy: KneePolicy, scale: Scale, replicas: Sequence[Replica]) -> tuple[int, int]:
        """Ready, and the most there can be, in the units of the scale. Some must serve."""
        serving = [replica for replica in replicas if replica.serves]
        # Those that wait for a node take room yet.
        placed = [replica for replica in replicas if replica.node]
        extra_nodes = self._settings.extra_nodes
        if not policy.counts_concurrency:
            return len(serving), self._source.capacity(serving[0], len(placed), extra_nodes)
        # A plan may have a little more than was asked for: all of that is there then.
        ready = min(sum(replica.concurrency for replica in serving), scale.replicas)
        # What is left holds the smallest pods; larger ones only do better.
        least = min(serving, key=lambda replica: (replica.concurrency, replica.name))
        more = self._source.capacity(least, 0, extra_nodes) * least.concurrency
        return ready, more + sum(replica.concurrency for replica in placed)

    def _aside(self, policy: KneePolicy, oldest: Mapping[Any, str]) -> str:
        """Why a decision is for the status only; a Refusal when there must be none."""
        target, enforce = policy.target, policy.mode is Mode.ENFORCE
        if policy.mode is Mode.OFF:
            raise Refusal("Off", "spec.mode is off")
        if policy.paused:
            raise Refusal("Paused", "spec.paused is true")
        first = oldest.get(_claim(target), policy.key)
        if enforce and first != policy.key:
            raise Refusal("AnotherAutoscaler", f"KneePolicy {first} scales {target.kind} {target.name}")
        hpas = self._source.hpas_of(target)
        if policy.via is Via.METRICS and not hpas:
            return f"no HorizontalPodAutoscaler scales {target.kind} {target.name} (spec.via: metrics)"
        if policy.via is Via.SCALE and hpas:
            another = f"HorizontalPodAutoscaler {hpas[0]} scales {target.kind} {target.name}"
            if enforce:
                told = "remove it, or let it follow our metric (spec.via: metrics)"
                raise Refusal("AnotherAutoscaler", f"{another}; {told}")
            return f"{policy.mode}; {another}"
        return "" if enforce else str(policy.mode)

    def _state(self, obj: Json) -> State:
        """Ours of this term, as the watch may lag behind; else as an earlier leader wrote it down."""
        uid = _uid(obj)
        if uid not in self._states:
            try:
                self._states[uid] = read_state(obj.get("status") or {})
            except ValueError as error:
                log.warning("state forgotten", policy=_key(obj), error=str(error))
                self._states[uid] = State()
        return self._states[uid]

    def _finish(self, obj: Json, look: Look | Refusal, reading: Reading | str, now_s: float) -> None:
        if not self._allowed():
            return  # whoever leads now decides
        try:
            if isinstance(look, Refusal):
                self._write(obj, {}, look.reason, str(look), now_s)
            else:
                self._decide(obj, look, reading, now_s)
        except (ApiError, KubeUnreachable) as error:
            self._metrics.failures.labels("status").inc()
            log.warning("policy not written", policy=_key(obj), error=str(error))
        except Exception:  # one policy's fault must not keep the others from their decisions
            self._metrics.failures.labels("decision").inc()
            log.exception("policy failed", policy=_key(obj))

    def _decide(self, obj: Json, look: Look, reading: Reading | str, now_s: float) -> None:
        policy, uid = look.policy, _uid(obj)
        sample = sample_of(look, reading, now_s)
        decision = scaling.decide(policy.policy, look.state, sample, now_s)
        reason, message = reason_of(policy.policy, decision, sample), "; ".join(decision.reasons)
        wanted = decision.replicas
        shown = decision.state.asked
        if wanted is not None and wanted != look.scale.replicas:
            log.info(
                "decision", namespace=policy.namespace, policy=policy.name, mode=str(policy.mode),
                decision=reason, replicas=wanted, before=look.scale.replicas, why=message,
            )  # fmt: skip
            if look.aside:
                decision = replace(decision, state=_as_if_not_decided(look.state, decision))
                message = f"{message} (not carried out: {look.aside})"
            elif policy.via is Via.SCALE:
                try:
                    self._scales.set(policy.target, wanted)
                    self._metrics.changes.inc()
                    self._events.post(
                        obj["metadata"], "Rescaled", f"{look.scale.replicas} to {wanted}: {message}"
                    )
                except (NotScalable, ApiError) as error:
                    self._metrics.failures.labels("scale").inc()
                    reason, message = "TargetNotScalable", str(error)
        self._states[uid] = decision.state
        measured = sample if isinstance(sample, Sample) else None
        if measured and measured.latency_s is not None:
            self._latency_s[uid] = measured.latency_s
        status = status_of(decision, measured, look.scale.replicas, now_s) | {"targetReplicas": shown}
        self._write(obj, status, reason, message, now_s)

    def _write(self, obj: Json, status: Json, reason: str, message: str, now_s: float) -> None:
        metadata, before = obj["metadata"], obj.get("status") or {}
        self._reasons[metadata["uid"]] = reason
        self._metrics.decisions.labels(reason).inc()
        if is_refusal(reason) and is_new(before, reason):
            self._events.post(metadata, reason, message, "Warning")
        generation = metadata.get("generation", 0)
        conditions = [condition(before, reason, message, generation, now_s)]
        whole = status | {"observedGeneration": generation, "conditions": conditions}
        if all(before.get(k) == v for k, v in whole.items()):
            return  # nothing new to say
        path = kneepolicy.KNEE_POLICIES.path(metadata["namespace"], metadata["name"], "status")
        # With the uid, so that a policy of the same name that came meanwhile is left alone.
        body = {"metadata": {"uid": metadata["uid"]}, "status": whole}
        self._kube.patch(path, body)


def _namespace(obj: Json) -> str:
    return str(obj["metadata"]["namespace"])


def _read(obj: Json) -> KneePolicy | Refusal:
    try:
        return kneepolicy.read(obj)
    except PolicyError as error:
        return Refusal("InvalidPolicy", str(error))


def _oldest(policies: Sequence[tuple[Json, KneePolicy | Refusal]]) -> dict[Any, str]:
    """Of the policies that would scale a target the oldest: two would pull it to and fro."""
    first: dict[Any, str] = {}
    for _, policy in sorted(policies, key=lambda one: str(one[0]["metadata"].get("creationTimestamp"))):
        if isinstance(policy, KneePolicy) and policy.mode is Mode.ENFORCE:
            first.setdefault(_claim(policy.target), policy.key)
    return first


def _claim(target: ScaleTarget) -> tuple[str, str, str, str]:
    return target.namespace, target.api_version.rpartition("/")[0], target.kind, target.name


def _as_if_not_decided(before: State, decision: Decision) -> State:
    """What is not carried out must not be believed later: a search would take the replicas there are for
    all that can be had."""
    return replace(before, decided_at_s=decision.state.decided_at_s, spending=decision.state.spending)


def _key(obj: Json) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _version(obj: Json) -> tuple[str, int]:
    return _uid(obj), obj["metadata"].get("generation", 0)


def _uid(obj: Json) -> str:
    return str(obj["metadata"]["uid"])
