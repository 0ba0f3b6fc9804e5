"""One search teaches the knees of the loads near it."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.kneescale.curve_families import farthest_above_chord
from hpa_replacement.decision.model import KnownKnee
from hpa_replacement.decision.searching import is_known, knee_for, learn
from hpa_replacement.search import Ask, Point, SearchState, Variant, ask, observe, start


def closed_loop(r: int, clients: int) -> Point:
    throughput = r * clients / (r + clients - 1)
    return Point(r, throughput**2 / clients, throughput, clients)


def searched(clients: int, capacity: int) -> tuple[SearchState, KnownKnee]:
    state = start(Variant.BEST, 1, capacity)
    while isinstance(step := ask(state), Ask):
        state = observe(state, closed_loop(step.replicas, clients))
    at_knee = closed_loop(step.knee, clients)
    return state, KnownKnee(at_knee.throughput_per_s, clients, step.knee)


@pytest.mark.parametrize("clients", [8, 12, 16, 20, 28, 40, 45])
def test_knees_of_other_loads_are_near_those_of_an_exhaustive_sweep(clients: int) -> None:
    state, found = searched(20, 114)
    known = learn((), state, found)
    true = farthest_above_chord(lambda r: np.asarray((r / (r + clients - 1)) ** 2), 1, 114)[0]
    assert knee_for(clients, known, state.points) == pytest.approx(true, abs=6)
    assert is_known(clients, known, state.points)
    assert not is_known(70, known, state.points)


def test_below_what_is_known_replicas_go_with_the_load() -> None:
    state, found = searched(20, 114)
    known = learn((), state, found)
    lowest = min(known, key=lambda k: k.concurrency)
    assert knee_for(lowest.concurrency / 2, known, state.points) == pytest.approx(lowest.replicas / 2)
    assert knee_for(0.0, known, state.points) == 0.0


def test_a_search_replaces_what_was_known_of_its_loads_only() -> None:
    state, found = searched(20, 114)
    old = (KnownKnee(1.0, 19.0, 99), KnownKnee(90.0, 90.0, 100))
    known = learn(old, state, found)
    assert old[0] not in known
    assert old[1] in known
    assert found in known
    assert sum(k.inferred for k in known) == len(known) - 2


def test_a_knee_found_without_load_teaches_nothing_of_others() -> None:
    state, _ = searched(20, 114)
    found = KnownKnee(0.0, 0.0, 1)
    assert learn((KnownKnee(10.0, 20.0, 30),), state, found) == (found,)
