"""What was looked at before a decision, and what of it makes the question to Prometheus and the sample."""

from __future__ import annotations

from dataclasses import dataclass

from hpa_replacement.decision.model import NoSample, Sample, State
from hpa_replacement.kneepolicy import KneePolicy
from hpa_replacement.observe.monitor import Asked, Reading
from hpa_replacement.search import Variant
from surgekit.kube.scale import Scale
from surgekit.prometheus.query_lanes import COMMON_WINDOWS_S

__all__ = ["Look", "asked", "clean_window_s", "sample_of"]


@dataclass(frozen=True)
class Look:
    """What a decision rests on besides Prometheus."""

    policy: KneePolicy
    state: State
    scale: Scale
    pods: frozenset[str]  # Ready
    unchanged_since_s: float
    window_s: float
    ready_replicas: int = 0  # in the units of its scale
    requested_cores: float = 0.0
    capacity: int = 0
    missing: str = ""  # why there is nothing to ask Prometheus for
    aside: str = ""  # why a decision is not carried out; empty when it is


# A sample may be shorter than its interval, so that a step costs one interval and not two. Few lengths, since
# functions share their queries by length; and long enough for a rate, which takes two scrapes at least.
_SHARES = (1.0, 0.8, 0.6)
_SCRAPES = 3


def clean_window_s(interval_s: float, unchanged_s: float, scrape_interval_s: float) -> float:
    """The longest window within which nothing changed; the whole interval when there is none."""
    lengths_s = (share * interval_s for share in _SHARES)
    clean = (s for s in lengths_s if _SCRAPES * scrape_interval_s <= s <= unchanged_s)
    return next(clean, interval_s)


def asked(look: Look) -> Asked:
    policy = look.policy
    return Asked(
        policy.key,
        policy.namespace,
        policy.function,
        policy.target.name,
        look.window_s,
        look.pods,
        policy.preset,
        policy.queries,
        cpu=policy.policy.search.variant is not Variant.BEST,  # which goes by the load itself
        common=not policy.queries and policy.policy.interval_s in COMMON_WINDOWS_S,
    )


def sample_of(look: Look, reading: Reading | str, now_s: float) -> Sample | NoSample:
    if isinstance(reading, str):
        return NoSample(look.missing or reading)
    if reading.latency_s is None and look.window_s < look.policy.policy.interval_s:
        # What takes longer than a part of an interval is not over yet.
        return NoSample(f"no request ended in the last {look.window_s:g} s")
    cores, requested = reading.cpu_cores, look.requested_cores
    utilisation = cores / requested if cores is not None and requested > 0 else None
    try:
        return Sample(
            replicas=look.scale.replicas,
            ready_replicas=look.ready_replicas,
            ready_since_s=look.unchanged_since_s,
            window_start_s=now_s - look.window_s,
            window_end_s=now_s,
            throughput_per_s=reading.throughput_per_s,
            errors_per_s=reading.errors_per_s,
            latency_s=reading.latency_s,
            cpu_utilisation=utilisation,
            capacity=look.capacity,
        )
    except ValueError as error:
        return NoSample(str(error))
