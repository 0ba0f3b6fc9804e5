"""A policy that makes no sense cannot be made; the error names field and value."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hpa_replacement.decision.policy import Budget, Policy, PolicyError, Search, Thresholds


def test_defaults_are_the_papers() -> None:
    policy = Policy(max_replicas=10)
    assert policy.interval_s == 30
    assert policy.thresholds == Thresholds(2.0, 1.0, 0.05, None)
    assert policy.search.variant == "best"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Policy(5, 0), "spec.minReplicas: must be at least 1, is 0"),
        (lambda: Policy(2, 3), r"spec.maxReplicas: must be at least spec.minReplicas \(3\), is 2"),
        (lambda: Policy(2, interval_s=0), "spec.samplingInterval: must be a number of seconds > 0, is 0"),
        (lambda: Policy(9, interval_s=float("nan")), "spec.samplingInterval"),
        (lambda: Policy(9, 3, search=Search(exploration_cap=2)), "spec.search.explorationCap"),
        (lambda: Search(exploration_cap=0), "spec.search.explorationCap: must be at least 1, is 0"),
        (lambda: Thresholds(throughput_per_s=0), "spec.thresholds.throughputPerSecond"),
        (lambda: Thresholds(errors_per_s=-1), "spec.thresholds.errorsPerSecond: must be a number > 0, is -1"),
        (lambda: Thresholds(cpu_drop=1.5), "spec.thresholds.cpuDrop: must be between 0 and 1, is 1.5"),
        (lambda: Thresholds(latency_s=0), "spec.thresholds.latencySeconds"),
        (lambda: Budget(0, 900), "spec.budget.replicaIntervals: must be a number > 0, is 0"),
        (lambda: Budget(10, float("inf")), "spec.budget.window"),
        (
            lambda: Policy(9, budget=Budget(10, 10)),
            "spec.budget.window: must be at least spec.samplingInterval",
        ),
    ],
)
def test_errors_name_field_and_value(make: Callable[[], object], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        make()
