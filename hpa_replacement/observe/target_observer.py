"""Observes the target of a policy: its scale, its pods, the room left for more of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hpa_replacement.decision.model import State
from hpa_replacement.kneepolicy import KneePolicy
from hpa_replacement.observe.cluster_state import Replica
from hpa_replacement.observe.observation import Observation, clean_window_s, why_not_applied
from hpa_replacement.observe.sources import ClusterSource
from hpa_replacement.settings import Settings
from surgekit.kube.scale import Scale, Scales

__all__ = ["TargetObserver"]


class TargetObserver:
    def __init__(self, settings: Settings, source: ClusterSource, scales: Scales) -> None:
        self._settings, self._source, self._scales = settings, source, scales

    def observe(
        self, policy: KneePolicy, owner: str, state: State, latency_s: float, now_s: float
    ) -> Observation:
        """`latency_s`: the average of the last sample. Raises Refusal, NotScalable or an API error."""
        target, interval_s = policy.target, policy.policy.interval_s
        hold_reason = why_not_applied(policy, owner, self._source.hpas_of(target))
        scale = self._scales.get(target)
        replicas, since_s = self._source.replicas(target.namespace, scale.selector)
        serving = [replica for replica in replicas if replica.serves]
        pods = frozenset(replica.name for replica in serving)
        observation = Observation(policy, state, scale, pods, since_s, interval_s, hold_reason=hold_reason)
        if not serving:
            return replace(observation, no_sample_reason=f"no pod of {target.kind} {target.name} is Ready")
        # Requests queued in the earlier pods finish first. Queues of few pods are uneven: some requests take
        # twice the average.
        since_s += 2 * latency_s
        ready, capacity = self._count(policy, scale, replicas)
        return replace(
            observation,
            unchanged_since_s=since_s,
            window_s=clean_window_s(interval_s, now_s - since_s, self._settings.scrape_interval_s),
            ready_replicas=ready,
            requested_cores=sum(replica.cpu_millicores for replica in serving) / 1000,
            capacity=capacity,
        )

    def _count(self, policy: KneePolicy, scale: Scale, replicas: Sequence[Replica]) -> tuple[int, int]:
        """Ready replicas and capacity, in units of the scale. At least one replica must serve."""
        serving = [replica for replica in replicas if replica.serves]
        # A pod that waits for a node takes room that is still counted as free.
        placed = [replica for replica in replicas if replica.node]
        extra_nodes = self._settings.extra_nodes
        if not policy.counts_concurrency:
            return len(serving), self._source.capacity(serving[0], len(placed), extra_nodes)
        # A ComboFunc's plan may have slightly more concurrency than requested: count no more than requested.
        ready = min(sum(replica.concurrency for replica in serving), scale.replicas)
        # Assume the free room is filled with the smallest pods; larger ones give at least as much.
        smallest = min(serving, key=lambda replica: (replica.concurrency, replica.name))
        more = self._source.capacity(smallest, 0, extra_nodes) * smallest.concurrency
        return ready, more + sum(replica.concurrency for replica in placed)
