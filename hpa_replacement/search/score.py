"""The performance score of a sample (eq. 1) and its load."""

from __future__ import annotations

import math

__all__ = ["concurrency", "performance_score"]


def performance_score(throughput_per_s: float, latency_s: float) -> float:
    """Eq. (1): successful invocations per second over their average latency."""
    if not (math.isfinite(throughput_per_s) and throughput_per_s >= 0):
        raise ValueError(f"throughput_per_s: must be a number >= 0, is {throughput_per_s}")
    if not (math.isfinite(latency_s) and latency_s > 0):
        raise ValueError(f"latency_s: must be a number > 0, is {latency_s}")
    return throughput_per_s / latency_s


def concurrency(throughput_per_s: float, errors_per_s: float, latency_s: float) -> float:
    """Invocations under way, by Little's law. Failed ones are assumed to take the average latency."""
    return (throughput_per_s + errors_per_s) * latency_s
