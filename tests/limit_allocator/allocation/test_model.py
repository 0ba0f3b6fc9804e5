"""Parameters: the paper's defaults, and errors that name key and value."""

from __future__ import annotations

from typing import Any

import pytest

from limit_allocator.allocation.model import ParameterError, Parameters, Variant, first_sequence, report_order


def test_defaults_are_the_papers() -> None:
    parameters = Parameters()
    assert (parameters.window_periods, parameters.kappa, parameters.gamma, parameters.upsilon) == (
        10,
        0.8,
        0.2,
        20,
    )
    assert (parameters.delta_bytes, parameters.reclaim_every_s) == (52_428_800, 5.0)
    assert parameters.growth_bytes == 20_480_000
    assert parameters.variant is Variant.BEST


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kappa": 1.5}, "kappa: 1.5 is outside 0.0..1.0"),
        ({"gamma": float("nan")}, "gamma: nan is not a number"),
        ({"window_periods": 0}, "window_periods: 0 is outside 1..64"),
        ({"window_periods": 2.5}, "window_periods: 2.5 is not a whole number"),
        ({"floor_us": True}, "floor_us: True is not a whole number"),
        ({"upsilon": "20"}, "upsilon: '20' is not a number"),
        ({"variant": "autopilot"}, "variant: 'autopilot' is not one of paper, published, best"),
        ({"delta_bytes": 5}, "tight_delta_bytes: 20480000 is above delta_bytes (5)"),
    ],
)
def test_an_error_names_key_and_value(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError) as caught:
        Parameters(**given)
    assert str(caught.value) == said


def test_later_starts_and_terms_come_after_all_of_earlier_ones() -> None:
    assert report_order(2, 0) > report_order(1, 10**9) > report_order(1, 10**9 - 1)
    assert first_sequence(2) > first_sequence(1) + 10**9
