"""What the HPA makes of a Pods metric: Kubernetes 1.36.3, replica_calculator.go, calcPlainMetricReplicas."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

TOLERANCE = 0.1


def desired_replicas(
    current: int,
    running: Sequence[str],
    pending: Sequence[str],
    values: Mapping[str, int],
    tolerance: float = TOLERANCE,
    target: int = 1000,
) -> int:
    """`values` and `target` are in thousandths."""
    metrics = {name: value for name, value in values.items() if name not in pending}
    missing = [name for name in running if name not in metrics]
    assert metrics, "the HPA reports an error"

    def ratio() -> float:
        return math.trunc(sum(metrics.values()) / len(metrics)) / target

    def is_within(a_ratio: float) -> bool:
        return 1.0 - tolerance <= a_ratio <= 1.0 + tolerance

    first = ratio()
    up_with_unready = bool(pending) and first > 1.0
    if not up_with_unready and not missing:
        return current if is_within(first) else math.ceil(first * (len(running) - len(missing)))
    if first != 1.0:
        metrics |= dict.fromkeys(missing, target if first < 1.0 else 0)
    if up_with_unready:
        metrics |= dict.fromkeys(pending, 0)
    second = ratio()
    if is_within(second) or (first < 1.0 < second) or (second < 1.0 < first):
        return current
    replicas = math.ceil(second * len(metrics))
    if (second < 1.0 and replicas > current) or (second > 1.0 and replicas < current):
        return current
    return replicas
