"""The simulation on small scenes whose outcome is known."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.pulsenet.arms import ARMS, OURS, Arm, Scene, play
from experiments.pulsenet.baselines import Asynchronous, Synchronous, WarmPool
from experiments.pulsenet.model import ROUTING_S, Cluster, Creation, Outcome, Track
from experiments.pulsenet.simulation import Policy, Simulation, Span
from experiments.pulsenet.trace import Requests, read

ONE = Creation(alone_s=1.0, at_once=2.0, per_s=1e6)
SPAN = Span(0.5, 119.5)


def simulate(policy: Policy, *requests: tuple[float, float], creation: Creation = ONE) -> Outcome:
    """(arrival, run time) of one function whose instances take a byte."""
    at_s, duration_s = np.array(requests).T
    drawn = Requests(at_s, np.zeros(len(requests), np.int64), duration_s)
    return Simulation(drawn, np.ones(1), SPAN, Cluster(nodes=1), creation, policy).run()


def test_a_request_waits_for_its_creation_and_the_next_one_finds_it() -> None:
    found = simulate(Synchronous(keepalive_s=10.0), (1.0, 2.0), (5.0, 1.0), (40.0, 1.0))
    assert found.delay_s == pytest.approx([1.0 + ROUTING_S, ROUTING_S, 1.0 + ROUTING_S])
    assert found.track.tolist() == [Track.WAITED, Track.WARM, Track.WAITED]
    assert found.creations == 2
    assert found.busy_s.tolist() == pytest.approx([4.0])
    # Created, used until 6, idle until it expires at 16; and again from 40, until 42 + 10.
    assert found.held_s.tolist() == pytest.approx([15.0 + 12.0])


def test_whoever_becomes_free_first_takes_the_request() -> None:
    found = simulate(Synchronous(600.0), (1.0, 1.0), (2.5, 0.2))
    assert found.delay_s[1] == pytest.approx(0.5 + ROUTING_S)  # sooner than its own creation


def test_creations_on_one_node_slow_each_other_down() -> None:
    found = simulate(Synchronous(600.0), *[(1.0, 30.0)] * 4)
    assert sorted(found.creation_s) == pytest.approx([2.0] * 4, abs=1e-4)  # four share the progress of two
    apart = dataclasses.replace(ONE, at_once=math.inf)
    assert sorted(
        simulate(Synchronous(600.0), *[(1.0, 30.0)] * 4, creation=apart).creation_s
    ) == pytest.approx([1.0] * 4, abs=1e-4)


def test_a_spare_pod_is_taken_at_once_and_replaced() -> None:
    found = simulate(WarmPool(keepalive_s=600.0, spares=1), (5.0, 1.0))
    assert found.delay_s[0] == pytest.approx(0.05 + ROUTING_S)
    assert found.creations == 1  # the first spare was created before anything was measured


def test_from_zero_the_autoscaler_decides_at_once_and_after_a_window_removes() -> None:
    found = simulate(Asynchronous(window_s=6.0), (10.0, 1.0))
    assert found.delay_s[0] == pytest.approx(1.0 + ROUTING_S)
    assert 6.0 < found.held_s[0] < 14.0


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.floats(1.0, 100.0), st.floats(0.001, 20.0)), min_size=1, max_size=30),
    st.sampled_from(["synchronous", "asynchronous", "warm_pool"]),
)
def test_every_request_runs_and_instances_are_never_fewer_than_requests(
    requests: list[tuple[float, float]], system: str
) -> None:
    policies = {"synchronous": Synchronous, "asynchronous": Asynchronous, "warm_pool": WarmPool}
    found = simulate(policies[system](), *sorted(requests))
    assert found.finished
    assert (found.delay_s >= ROUTING_S).all()
    assert found.busy_s[0] <= found.held_s[0] + 1e-6
    within = [
        min(d, max(SPAN.end_s - (a + w), 0.0))
        for (a, d), w in zip(sorted(requests), found.delay_s, strict=True)
    ]
    assert found.busy_s[0] == pytest.approx(sum(within), abs=0.01)


SCENE = Scene(tuple(read()), Span(60.0, 240.0))


@pytest.mark.parametrize("arm", ARMS.values(), ids=lambda arm: arm.system)
def test_each_system_answers_all_requests_of_the_extract_and_twice_the_same(arm: Arm) -> None:
    found, again = play(arm, SCENE, 5), play(arm, SCENE, 5)
    assert found.finished
    assert found.delay_s.tolist() == again.delay_s.tolist()
    assert (found.held_s >= found.busy_s - 1e-6).all()
    has_emergency = (found.track == Track.EMERGENCY).any()
    assert has_emergency == (arm.system in (OURS, "paper"))
