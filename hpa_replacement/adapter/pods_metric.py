"""What to answer for each pod, so that an HPA with a Pods metric of target 1 lands on our replicas. Pure.

Knative's HPA class asks for a metric in this form only. The HPA (Kubernetes 1.36.3, calcPlainMetricReplicas
in pkg/controller/podautoscaler/replica_calculator.go) computes in thousandths and with whole divisions

    ratio = sum of the values / number of values,   replicas = ceil(ratio * number of values)

and stays where it is if |ratio - 1| <= tolerance. Pods that are being deleted or have failed do not count. A
Pending pod counts 0 if ratio > 1, and else not at all. A running pod without a value counts 0 if ratio > 1,
and 1 if ratio < 1. Replicas never change against the ratio. Values of names that are no pods count, too.

So n pods that share the sum R have the HPA land on R, if R / n is outside the tolerance. If it is inside:

- down to R: one pod gets no value, so it counts 1, and values of names that are no pods lower the ratio while
  the sum stays R. This also works while pods are Pending.
- up to R: there is no such answer. ratio > 1 + tolerance means replicas > (1 + tolerance) * n >= R, and
  nothing raises the ratio alone. So we ask for the least number that the HPA accepts, then go down to R.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import count

__all__ = ["HIGHEST_TOLERANCE", "MOST_REPLICAS", "Values", "pod_values"]

Values = Mapping[str, int]  # thousandths, by name
# For more, thousandths are too coarse: up to replicas / (1 - tolerance) values are given.
MOST_REPLICAS, HIGHEST_TOLERANCE = 700, 0.3
_ONE = 1000


def pod_values(replicas: int, running: Sequence[str], pending: int, tolerance: float) -> Values:
    """Values for an HPA with this tolerance that sees these running pods, and so many Pending ones."""
    pods = len(running) + pending
    if not running or replicas > MOST_REPLICAS:
        raise ValueError(f"running: one must; replicas: at most {MOST_REPLICAS}, not {replicas}")
    if replicas == pods:
        return _shared(_ONE * replicas, running)
    if replicas > pods:
        reached = next(n for n in count(replicas) if _ratio(n, pods) > 1.0 + tolerance)
        return _shared(_sum(reached, pods), running)
    answered = running[1:]
    padding = next(
        m for m in count() if answered or m if _ratio(replicas, len(running) + m) < 1.0 - tolerance
    )
    # No pod has such a name.
    names = [*answered, *(f"_{i}" for i in range(padding))]
    return _shared(max(_sum(replicas, len(running) + padding) - _ONE, 0), names)


def _mean(replicas: int, values: int) -> int:
    """The highest whole mean of so many values with which the HPA lands on `replicas`, or just above."""
    mean = _ONE * replicas // values
    mean -= _lands_on(mean, values) > replicas  # the HPA's own rounding error
    return mean + (_lands_on(mean, values) < replicas)


def _lands_on(mean: int, values: int) -> int:
    return math.ceil(mean / _ONE * values)


def _sum(replicas: int, values: int) -> int:
    return _mean(replicas, values) * values


def _ratio(replicas: int, values: int) -> float:
    return _mean(replicas, values) / _ONE


def _shared(total: int, names: Sequence[str]) -> Values:
    each, more = divmod(total, len(names))
    return {name: each + (i < more) for i, name in enumerate(names)}
