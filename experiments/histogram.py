"""Read a Prometheus histogram from a process's /metrics text and estimate quantiles from its buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

__all__ = ["quantile", "read_buckets"]


def read_buckets(text: str, name: str) -> Counter[float]:
    """Cumulative counts by upper bound, over all label sets. `Counter.update` adds two of them."""
    buckets: Counter[float] = Counter()
    for family in text_string_to_metric_families(text):
        if family.name == name:
            for sample in family.samples:
                if sample.name == f"{name}_bucket":
                    buckets[float(sample.labels["le"])] += int(sample.value)
            return buckets
    raise ValueError(f"no histogram {name} in the metrics")


def quantile(buckets: Mapping[float, int], q: float) -> float:
    """Interpolate linearly inside a bucket, as PromQL's histogram_quantile does. A quantile past the last
    finite bound is that bound."""
    rank = q * buckets[float("inf")]
    lower, below = 0.0, 0
    for upper, count in sorted(buckets.items()):
        if upper == float("inf"):
            break
        if count >= rank and count > below:
            return lower + (upper - lower) * (rank - below) / (count - below)
        lower, below = upper, count
    return lower
