"""The observation behind a decision: the target, the request for its metrics, the sample they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hpa_replacement.conditions import Refusal
from hpa_replacement.decision.model import NoSample, Sample, State
from hpa_replacement.kneepolicy import KneePolicy, Via
from hpa_replacement.observe.monitor import MetricsRequest, Reading
from hpa_replacement.search import Variant
from surgekit.kube.scale import Scale
from surgekit.process.modes import Mode
from surgekit.prometheus.query_lanes import COMMON_WINDOWS_S

__all__ = ["Observation", "clean_window_s", "metrics_request", "sample_of", "why_not_applied"]


@dataclass(frozen=True)
class Observation:
    """Everything a decision is based on, except the metrics."""

    policy: KneePolicy
    state: State
    scale: Scale
    pods: frozenset[str]  # Ready
    unchanged_since_s: float  # since when the same pods have served
    window_s: float
    ready_replicas: int = 0  # in units of the scale
    requested_cores: float = 0.0
    capacity: int = 0
    no_sample_reason: str = ""  # why Prometheus is not asked; empty when it is
    hold_reason: str = ""  # why the decision is not applied; empty when it is
    # When the API server last confirmed each table, and when the sample's window ended; a monotonic clock.
    inputs_at_s: Mapping[str, float] = field(default_factory=dict)

    def ages_s(self, sample: Sample | NoSample, now_s: float) -> dict[str, float]:
        """The age of each input of a decision on this sample."""
        unused = {"sample"} if isinstance(sample, NoSample) else set()
        return {name: now_s - at_s for name, at_s in self.inputs_at_s.items() if name not in unused}


# A sample may be shorter than its interval, so that a step of a search costs one interval and not two. Only
# these lengths: functions share queries of the same length.
_WINDOW_SHARES = (1.0, 0.8, 0.6)
_SCRAPES_MIN = 3  # a rate needs two


def clean_window_s(interval_s: float, unchanged_s: float, scrape_interval_s: float) -> float:
    """The longest window without a change of pods; the whole interval if there is none."""
    lengths_s = (share * interval_s for share in _WINDOW_SHARES)
    clean = (s for s in lengths_s if _SCRAPES_MIN * scrape_interval_s <= s <= unchanged_s)
    return next(clean, interval_s)


def why_not_applied(policy: KneePolicy, owner: str, hpas: Sequence[str]) -> str:
    """Why a decision is only written to the status; empty: it is applied. Refusal: nothing is decided.

    `owner` is the policy that may scale the target, `hpas` are the HorizontalPodAutoscalers that do.
    """
    target, enforce = policy.target, policy.mode is Mode.ENFORCE
    if policy.mode is Mode.OFF:
        raise Refusal("Off", "spec.mode is off")
    if policy.paused:
        raise Refusal("Paused", "spec.paused is true")
    if enforce and owner != policy.key:
        raise Refusal("AnotherAutoscaler", f"KneePolicy {owner} scales {target.kind} {target.name}")
    if policy.via is Via.METRICS and not hpas:
        return f"no HorizontalPodAutoscaler scales {target.kind} {target.name} (spec.via: metrics)"
    if policy.via is Via.SCALE and hpas:
        conflict = f"HorizontalPodAutoscaler {hpas[0]} scales {target.kind} {target.name}"
        if enforce:
            advice = "remove it, or let it follow our metric (spec.via: metrics)"
            raise Refusal("AnotherAutoscaler", f"{conflict}; {advice}")
        return f"{policy.mode}; {conflict}"
    return "" if enforce else str(policy.mode)


def metrics_request(observation: Observation | Refusal) -> MetricsRequest | None:
    """None: there is nothing to ask Prometheus for."""
    if isinstance(observation, Refusal) or observation.no_sample_reason:
        return None
    policy = observation.policy
    return MetricsRequest(
        policy.key,
        policy.namespace,
        policy.function,
        policy.target.name,
        observation.window_s,
        observation.pods,
        policy.preset,
        policy.queries,
        cpu=policy.policy.search.variant is not Variant.BEST,  # which does not use it
        shared=not policy.queries and policy.policy.interval_s in COMMON_WINDOWS_S,
    )


def sample_of(observation: Observation, reading: Reading | str, now_s: float) -> Sample | NoSample:
    if isinstance(reading, str):
        return NoSample(observation.no_sample_reason or reading)
    if reading.latency_s is None and observation.window_s < observation.policy.policy.interval_s:
        # Requests may take longer than this short window: none ended, which does not mean no load.
        return NoSample(f"no request ended in the last {observation.window_s:g} s")
    cores, requested = reading.cpu_cores, observation.requested_cores
    utilisation = cores / requested if cores is not None and requested > 0 else None
    try:
        return Sample(
            replicas=observation.scale.replicas,
            ready_replicas=observation.ready_replicas,
            ready_since_s=observation.unchanged_since_s,
            window_start_s=now_s - observation.window_s,
            window_end_s=now_s,
            throughput_per_s=reading.throughput_per_s,
            errors_per_s=reading.errors_per_s,
            latency_s=reading.latency_s,
            cpu_utilisation=utilisation,
            capacity=observation.capacity,
        )
    except ValueError as error:
        return NoSample(str(error))
