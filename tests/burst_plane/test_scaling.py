"""The number of regular instances, step by step against a plain restatement of Knative's rules."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burst_plane.scaling import Concurrency, Parameters, Scaler


class Restated:
    """Knative's rules over the list of everything that was recorded; nothing is kept ready.

    The window is the last `window` seconds. Seconds before the first record do not count, seconds after the
    last one count neither; those between that nobody wrote are zeros.
    """

    def __init__(self, p: Parameters) -> None:
        self.p, self.records = p, list[tuple[float, float, float]]()

    def average(self, now_s: float) -> float | None:
        window, now = int(self.p.window_s), math.floor(now_s)
        runs: list[list[tuple[int, float]]] = []  # a silence as long as the window begins anew
        for at_s, value, _ in self.records:
            second = math.floor(at_s)
            if not runs or second - runs[-1][-1][0] >= window:
                runs.append([])
            runs[-1].append((second, value))
        if not runs or now - runs[-1][-1][0] > window:
            return None
        first, last = runs[-1][0][0], runs[-1][-1][0]
        seconds = [s for s in range(now - window + 1, now + 1) if first <= s <= last]
        if not seconds:
            return 0.0
        return sum(v for s, v in runs[-1] if s in seconds) / len(seconds)

    def desired(self, ready: int, asked: int, now_s: float) -> int | None:
        average = self.average(now_s)
        if average is None:
            return None
        wanted = math.ceil(round(average, 6) / (self.p.concurrency * self.p.target_share))
        ready = 1 if ready == 0 else ready
        if wanted < ready // self.p.max_scale_down_rate:
            wanted = int(ready // self.p.max_scale_down_rate)
        wanted = min(wanted, math.ceil(ready * self.p.max_scale_up_rate))
        busy = [b for at_s, _, b in self.records if at_s > now_s - self.p.keepalive_s]
        idle_too_short = min(math.ceil(max(busy, default=0.0) / self.p.concurrency), asked)
        wanted = max(wanted, idle_too_short)
        return sorted([self.p.min_replicas, wanted, self.p.max_replicas])[1]


eighths = st.integers(0, 80).map(lambda n: n / 8)  # sums of them are exact
steps = st.lists(
    st.tuples(st.sampled_from([0.5, 1.0, 2.0, 7.0, 59.0, 60.0, 61.0, 200.0]), eighths, eighths, eighths),
    min_size=1,
    max_size=40,
)
parameters = st.builds(
    Parameters,
    concurrency=st.sampled_from([1.0, 2.0, 10.0]),
    target_share=st.sampled_from([0.5, 0.7, 1.0]),
    window_s=st.sampled_from([6.0, 60.0]),
    keepalive_s=st.sampled_from([0.0, 2.0, 60.0, 600.0]),
    max_replicas=st.sampled_from([5, 1000]),
    min_replicas=st.sampled_from([0, 2]),
    max_scale_up_rate=st.sampled_from([1.1, 1000.0]),
)


@settings(max_examples=60)
@given(parameters, steps, st.integers(0, 20))
def test_it_decides_as_the_restatement_at_each_step(
    p: Parameters, moves: list[tuple[float, float, float, float]], ready: int
) -> None:
    scaler, restated, now_s = Scaler(p), Restated(p), 1e6
    for gap_s, in_regular, queued, counted in moves:
        now_s += gap_s
        seen = Concurrency(in_regular, queued, counted)
        scaler.record(seen, now_s)
        restated.records.append((now_s, in_regular + queued + counted, in_regular))
        for later_s in (0.0, 1.0, 30.0, 60.0, 61.0):
            expected = restated.desired(ready, ready, now_s + later_s)
            if later_s == 0.0 and expected is not None:
                decision = scaler.decide(ready, ready, now_s)
                assert decision.valid
                assert decision.action == expected
                ready = decision.action
            average = restated.average(now_s + later_s)
            assert scaler.average(now_s + later_s) == (
                None if average is None else pytest.approx(average, abs=1e-6)
            )


def scaler_of(values: list[float], **parameters: float) -> Scaler:
    """Each second one value, of requests in regular instances."""
    scaler = Scaler(Parameters(**parameters))  # type: ignore[arg-type]
    for second, value in enumerate(values):
        scaler.record(Concurrency(value, 0.0, 0.0), float(second))
    return scaler


def test_the_average_of_a_minute_over_the_target() -> None:
    decision = scaler_of([7.0] * 60, keepalive_s=0.0).decide(1, 1, 59.0)
    assert decision.action == 10  # 7 / 0.7
    assert decision.valid


def test_one_queued_request_wakes_a_function_of_none() -> None:
    scaler = Scaler(Parameters())
    scaler.record(Concurrency(0.0, 1.0, 0.0), 0.0)
    assert scaler.decide(0, 0, 0.0).action == 2  # 1 / 0.7, as in Knative


def test_what_the_filter_does_not_let_through_creates_nothing() -> None:
    scaler = Scaler(Parameters())
    scaler.record(Concurrency(0.0, 0.0, 0.0), 0.0)
    assert scaler.decide(0, 0, 0.0).action == 0


def test_an_instance_goes_when_it_was_idle_for_the_keepalive() -> None:
    values = [3.0] * 10 + [0.0] * 130
    for keepalive_s, expected in ((20.0, 0), (100.0, 3), (200.0, 3)):
        scaler = scaler_of(values[:100], window_s=6.0, keepalive_s=keepalive_s)
        assert scaler.decide(3, 3, 99.0).action == (expected or 1)  # Knative halves at most


def test_the_keepalive_does_not_raise_the_number() -> None:
    scaler = scaler_of([8.0] + [0.0] * 50, keepalive_s=60.0)
    assert scaler.decide(2, 2, 50.0).action == 2


def test_without_reports_the_number_stays() -> None:
    scaler = Scaler(Parameters())
    assert not scaler.decide(5, 5, 0.0).valid
    scaler.record(Concurrency(1.0, 0.0, 0.0), 0.0)
    decision = scaler.decide(5, 5, 61.0)
    assert (decision.valid, decision.action) == (False, 5)
