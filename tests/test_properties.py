"""How property tests run, for all of them."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def test_a_busy_machine_makes_no_property_red() -> None:
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check
