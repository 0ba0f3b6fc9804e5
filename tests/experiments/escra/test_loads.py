"""When requests are due."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.escra.loads import BURST, EXPONENTIAL, FIXED, LOADS, TRACE, arrivals_s, trace_rates
from kwok.errors import TrafficError


@given(st.sampled_from(LOADS), st.floats(1, 200), st.floats(0.5, 60), st.integers(-9, 9))
def test_arrivals_are_in_order_and_within_the_time(
    load: str, rate: float, duration_s: float, seed: int
) -> None:
    found = arrivals_s(load, rate, duration_s, seed, [0.14, 1.37])
    assert found == sorted(found)
    assert all(0 <= at < duration_s for at in found)
    assert found == arrivals_s(load, rate, duration_s, seed, [0.14, 1.37])


def test_the_mean_rates_are_the_papers_shares() -> None:
    assert len(arrivals_s(FIXED, 100, 60, 1, [])) == 6000
    assert len(arrivals_s(EXPONENTIAL, 100, 600, 1, [])) == pytest.approx(0.75 * 60_000, rel=0.02)
    burst = arrivals_s(BURST, 100, 600, 1, [])
    on = sum(at % 20 < 10 for at in burst)
    assert on == pytest.approx((0.125 + 1.5) * 100 * 300, rel=0.02)
    assert len(burst) - on == 0.125 * 100 * 300


def test_the_trace_is_followed_second_by_second() -> None:
    found = arrivals_s(TRACE, 1000, 4, 1, [0.2, 1.0])
    counts = [sum(int(at) == second for at in found) for second in range(4)]
    assert counts == pytest.approx([200, 1000, 200, 1000], rel=0.25)


def test_other_seeds_draw_others() -> None:
    assert arrivals_s(EXPONENTIAL, 100, 10, 1, []) != arrivals_s(EXPONENTIAL, 100, 10, -1, [])
    assert trace_rates(None, 1) != trace_rates(None, 2)


@pytest.mark.parametrize("seed", range(5))
def test_rates_of_the_trace_span_the_papers_range(seed: int) -> None:
    rates = trace_rates(None, seed)
    assert len(rates) == 480
    assert (min(rates), max(rates)) == pytest.approx((0.14, 1.37))


def test_a_sample_without_eligible_functions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "invocations.csv").write_text("HashFunction,Trigger,0,1\na,timer,1,2\n")
    with pytest.raises(TrafficError, match="no function is eligible"):
        trace_rates(tmp_path, 1)
