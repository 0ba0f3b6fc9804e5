from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_speed_probe.estimator import Prior, Tau, estimate_tau, prior_of_peers, recent_mean_s
from node_speed_probe.model import Reason, Sample, Unfinished
from node_speed_probe.settings import Settings

SETTINGS = Settings()
PEERS = Prior(1.0, 0.2, Reason.PRIOR_OF_PEERS)
HOUR_S = 3600.0


def tau(
    taus_s: list[float], apart_s: float = 1.0, prior: Prior = PEERS, unfinished: tuple[Unfinished, ...] = ()
) -> Tau:
    samples = [Sample(i * apart_s, (i + 1) * apart_s, t) for i, t in enumerate(taus_s)]
    now_s = len(taus_s) * apart_s + (10.0 if unfinished else 0.0)
    return estimate_tau(samples, unfinished, prior, SETTINGS, now_s)


@pytest.mark.parametrize(
    ("taus_s", "low", "high"),
    [
        ([], 1.0, 1.0),
        ([1.0] * 20, 1.0, 1.0),
        ([0.2] * 10, 0.18, 0.3),
        ([3.0] * 5, 2.25, 3.0),  # never seen before, 3 times slower than its peers: within 25 %
        ([1.0] * 24 + [3.0] * 5, 2.25, 3.0),  # used to be as fast as its peers
        ([1.0] * 5 + [3.0] * 5, 2.25, 3.0),
        ([10.0] * 3, 6.0, 10.0),  # far beyond outlier_factor, but consistently
        ([1.0] * 24 + [10.0] * 6, 7.0, 10.0),
        ([3.0] * 24 + [1.0] * 5, 1.0, 1.75),  # and back
    ],
)
def test_what_is_believed(taus_s: list[float], low: float, high: float) -> None:
    assert low <= tau(taus_s).value_s <= high


def test_a_change_is_believed_as_soon_after_one_large_burst() -> None:
    burst = [Sample(0.0, 20.0, 1.0)] * 40
    slow = [Sample(20.0 + 3 * i, 23.0 + 3 * i, 3.0) for i in range(5)]
    assert 2.25 <= estimate_tau(burst + slow, (), PEERS, SETTINGS, 35.0).value_s <= 3.0


@pytest.mark.parametrize("before", range(2, 25))
@pytest.mark.parametrize("outlier_s", [10.0, 1e3, 1e9])
def test_one_outlier_does_not_double_the_estimate(before: int, outlier_s: float) -> None:
    assert tau([1.0] * before + [outlier_s]).value_s < 2.0


def test_fast_an_hour_ago_and_slow_now_is_slow() -> None:
    samples = [Sample(i, i + 1, 0.3) for i in range(24)] + [Sample(HOUR_S, HOUR_S + 2, 2.0)] * 2
    assert estimate_tau(samples, (), PEERS, SETTINGS, HOUR_S + 3).value_s > 1.5


def test_old_samples_give_way_to_the_peers_and_say_so() -> None:
    samples = [Sample(0.0, 1.0, 4.0)] * 8
    fresh, later, old = (estimate_tau(samples, (), PEERS, SETTINGS, t) for t in (1.0, 1800.0, 10 * HOUR_S))
    assert fresh.value_s > later.value_s > old.value_s == pytest.approx(1.0, rel=0.01)
    assert (fresh.reason, later.reason, old.reason) == (Reason.MEASURED, Reason.STALE, Reason.STALE)
    assert fresh.rel_error < later.rel_error


@pytest.mark.parametrize("factor", [0.01, 20.0])
def test_the_uncertainty_does_not_depend_on_how_fast_the_nodes_are(factor: float) -> None:
    taus_s = [1.0, 1.5, 0.8]
    one = tau(taus_s)
    other = tau([factor * t for t in taus_s], prior=replace(PEERS, tau_s=factor * PEERS.tau_s))
    assert other.value_s == pytest.approx(factor * one.value_s)
    assert other.rel_error == pytest.approx(one.rel_error)


def test_a_surer_prior_makes_the_estimate_surer() -> None:
    errors = [tau([1.0], prior=replace(PEERS, rel_error=e)).rel_error for e in (0.0, 0.2, 1.0)]
    assert errors == sorted(set(errors))


def test_a_node_never_seen_has_the_prior_and_its_uncertainty() -> None:
    assert tau([]) == Tau(1.0, 0.2, Reason.PRIOR_OF_PEERS)


def test_the_prior_is_the_peers_median_and_their_scatter() -> None:
    assert prior_of_peers((), SETTINGS) == Prior(1.0, 1.0, Reason.DEFAULT_PRIOR)
    alike, apart = prior_of_peers([2.0] * 9, SETTINGS), prior_of_peers([1.0, 1.5, 2.0, 3.0, 9.0], SETTINGS)
    assert (alike.tau_s, apart.tau_s) == (2.0, 2.0)
    assert alike.rel_error < apart.rel_error < 1.0


def test_uncertainty_falls_with_samples_and_rises_with_scatter() -> None:
    assert tau([]).rel_error > tau([1.0] * 10).rel_error
    assert tau([1.0]).rel_error > tau([1.0] * 4).rel_error > tau([1.0] * 12).rel_error
    assert tau([0.5, 1.5] * 6).rel_error > tau([1.0] * 12).rel_error


@pytest.mark.parametrize(
    ("unfinished_s", "overtaken", "low", "high"),
    [
        ([0.9], False, 1.0, 1.0),  # not beyond the estimate: says nothing
        ([8.0], False, 1.2, 2.0),  # one may be the pod's fault
        ([8.0] * 6, False, 4.0, 8.0),  # six are the node's
        ([8.0] * 6, True, 1.0, 1.0),  # unless others get through
    ],
)
def test_a_stalled_node_is_noticed_before_it_completes_anything(
    unfinished_s: list[float], overtaken: bool, low: float, high: float
) -> None:
    unfinished = tuple(Unfinished(21.0, u, overtaken) for u in unfinished_s)
    assert low <= tau([1.0] * 20, unfinished=unfinished).value_s <= high


def test_a_pod_of_many_containers_weighs_as_many() -> None:
    one = estimate_tau([Sample(0, 1, 1.0), Sample(0, 1, 2.0)], (), PEERS, SETTINGS, 1)
    many = estimate_tau([Sample(0, 1, 1.0), Sample(0, 1, 2.0, 6)], (), PEERS, SETTINGS, 1)
    assert many.value_s > one.value_s


def test_resizes_need_no_prior() -> None:
    samples = [Sample(0.0, 0.4, 0.4), Sample(1.0, 1.4, 0.4), Sample(2.0, 52.0, 50.0)]
    assert recent_mean_s((), SETTINGS, 0.0) is None
    assert 0.4 < (recent_mean_s(samples, SETTINGS, 53.0) or 0.0) < 1.2


@pytest.mark.parametrize("half_lives", [100, 900, 990, 1000, 1020, 1060, 1074, 1100])
def test_samples_of_days_ago_leave_the_prior(half_lives: int) -> None:
    """2^-1074 is the smallest number there is: a mean with such a weight would be 0."""
    now_s = half_lives * SETTINGS.half_life_s
    found = estimate_tau([Sample(-1.0, 0.0, 1e-3)], (), PEERS, SETTINGS, now_s)
    assert found.value_s == pytest.approx(PEERS.tau_s)
    assert found.reason is Reason.STALE
    assert recent_mean_s([Sample(-1.0, 0.0, 1e-3)], SETTINGS, now_s) in (None, pytest.approx(1e-3))


SAMPLES = st.lists(
    st.builds(
        Sample,
        began_s=st.floats(0, 1e6),
        ended_s=st.floats(0, 1e6),
        tau_s=st.floats(1e-6, 1e6),
        containers=st.integers(1, 200),
    ),
    max_size=24,
)
UNFINISHED = st.lists(st.builds(Unfinished, st.floats(0, 1e6), st.floats(0, 1e6), st.booleans()), max_size=8)


@given(SAMPLES, UNFINISHED, st.floats(1e-3, 1e3), st.floats(0, 2e6))
def test_an_estimate_lies_among_what_was_seen(
    samples: list[Sample], unfinished: list[Unfinished], prior_s: float, now_s: float
) -> None:
    prior = replace(PEERS, tau_s=prior_s)
    found = estimate_tau(samples, unfinished, prior, SETTINGS, now_s)
    values = [prior_s, *(s.tau_s for s in samples), *(u.tau_s for u in unfinished)]
    factor = SETTINGS.outlier_factor
    assert min(values) * 0.999 / factor <= found.value_s <= max(values) * 1.001 * factor
    assert 0.0 <= found.rel_error < 1e9


@given(st.floats(0.01, 100), st.floats(0.1, 10))
def test_units_do_not_matter(scale: float, slower: float) -> None:
    small = tau([1.0, slower, 1.2], prior=PEERS).value_s
    large = tau([scale, slower * scale, 1.2 * scale], prior=replace(PEERS, tau_s=scale)).value_s
    assert large == pytest.approx(small * scale)
