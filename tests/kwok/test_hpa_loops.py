"""The HPA's clocks under time compression."""

from __future__ import annotations

import pytest

from kwok.errors import ClusterError
from kwok.hpa_loops import checked_time_factor, controller_flags, default_behavior


def test_at_1_the_controller_managers_own_defaults_hold() -> None:
    assert controller_flags(1.0) == {}


def test_every_clock_is_divided() -> None:
    prefix = "horizontal-pod-autoscaler-"
    assert controller_flags(4.0) == {
        f"{prefix}sync-period": "3.75s",
        f"{prefix}downscale-stabilization": "75s",
        f"{prefix}cpu-initialization-period": "75s",
        f"{prefix}initial-readiness-delay": "7.5s",
    }


@pytest.mark.parametrize(("time_factor", "period_s"), [(1.0, 15), (2.0, 8), (3.0, 5), (4.0, 4)])
def test_the_policies_periods_too(time_factor: float, period_s: int) -> None:
    behavior = default_behavior(time_factor)
    policies = behavior["scaleUp"]["policies"] + behavior["scaleDown"]["policies"]
    assert [p["periodSeconds"] for p in policies] == [period_s] * 3
    assert "stabilizationWindowSeconds" not in behavior["scaleDown"], "the flag says it"


@pytest.mark.parametrize("time_factor", [0.0, 0.5, 4.1, float("nan")])
def test_a_factor_that_cannot_be_is_told(time_factor: float) -> None:
    with pytest.raises(ClusterError, match="time_factor"):
        checked_time_factor(time_factor)
