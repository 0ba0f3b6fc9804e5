"""How the other systems set the number of instances, from what HAProxy counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from burst_plane.scaling import Concurrency, Parameters, Scaler
from experiments.pulsenet.live.policies import Asynchronous, Synchronous
from surgekit.haproxy.traffic import FunctionTraffic


def counted(in_pods: int, waiting: int = 0, pods: int = 0, arrivals: int = 0) -> FunctionTraffic:
    return FunctionTraffic("f0", arrivals, 0, in_pods, 0, waiting, pods)


def test_from_zero_the_first_request_makes_an_instance_at_once() -> None:
    policy = Asynchronous()
    assert policy.look(counted(0), 0, missed=False, now_s=100.0) == 0
    assert policy.look(counted(0, waiting=1), 0, missed=True, now_s=100.5) == 2  # at 0.7 each


def test_a_request_that_finds_no_slot_waits_for_the_next_decision() -> None:
    policy = Asynchronous()
    policy.look(counted(1, pods=1), 1, missed=False, now_s=100.0)
    assert policy.look(counted(1, waiting=5, pods=1), 1, missed=True, now_s=100.5) == 1
    assert policy.look(counted(1, waiting=5, pods=1), 1, missed=False, now_s=102.0) > 1


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=4, max_size=40))
def test_looks_within_a_second_count_as_their_mean(looks: list[tuple[int, int]]) -> None:
    """Against the scaler, given one number a second."""
    policy, oracle, asked, expected = Asynchronous(), Scaler(Parameters(keepalive_s=0.0)), 3, 3
    pending: list[float] = []
    for number, (busy, waiting) in enumerate(looks):
        now_s = 100.0 + number / 2
        pending.append(busy + waiting)
        if number % 2 == 0:  # the first look, and each second
            oracle.record(Concurrency(sum(pending) / len(pending), 0.0, 0.0), now_s)
            pending.clear()
        if number % 4 == 0 and (decision := oracle.decide(3, expected, now_s)).valid:
            expected = decision.action
        asked = policy.look(counted(busy, waiting, pods=3), asked, missed=False, now_s=now_s)
        assert asked == expected


@given(st.lists(st.tuples(st.floats(0.0, 5.0), st.integers(0, 9), st.integers(0, 9)), max_size=60))
def test_synchronous_keeps_what_was_needed_in_the_last_keepalive(steps: list[tuple[float, int, int]]) -> None:
    policy, now_s = Synchronous(keepalive_s=10.0, before=[(42.0, 6), (45.0, 2)]), 50.0
    history = [(42.0, 6), (45.0, 2)]
    for passed_s, busy, waiting in steps:
        now_s += passed_s
        history.append((now_s, busy + waiting))
        wanted = policy.look(counted(busy, waiting), 0, missed=False, now_s=now_s)
        assert wanted == max(needed for at_s, needed in history if at_s > now_s - 10.0)


def test_requests_that_no_look_sees_keep_an_instance() -> None:
    asynchronous, synchronous = Asynchronous(), Synchronous(keepalive_s=10.0)
    for second in range(20):
        seen = counted(0, pods=1, arrivals=second)
        wanted = asynchronous.look(seen, 1, missed=False, now_s=100.0 + second)
        needed = synchronous.look(seen, 1, missed=False, now_s=100.0 + second)
    assert (wanted, needed) == (1, 1)
