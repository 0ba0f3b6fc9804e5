"""What must hold for every search, whoever brings its steps."""

from __future__ import annotations

import json

import pytest
from hypothesis import strategies as st

from hpa_replacement.decision.policy import Search
from hpa_replacement.search import Found, Point, SearchState, ask, observe, start

__all__ = ["ANY_CURVE", "OTHER_REPLICAS", "ends_inside_its_bounds", "ends_when_others_served"]

ANY_CURVE = {
    "left": st.integers(1, 30),
    "width": st.integers(0, 60),
    "reach": st.integers(0, 60),
    "seed": st.integers(0, 3),
    "scores": st.lists(st.floats(0, 1e6), min_size=91, max_size=91),
}
OTHER_REPLICAS = {
    "served": st.lists(st.integers(1, 40), min_size=120, max_size=120),
    "score": st.floats(0.1, 10),
}


def ends_inside_its_bounds(
    search: Search, *, left: int, width: int, reach: int, seed: int, scores: list[float]
) -> SearchState:
    """Asks and answers within its bounds, the same after a restart; its state at the end."""
    right = left + width
    state = start(search.variant, left, right, reach=min(left + reach, right), seed=seed)
    for _ in range(200):
        step = ask(state, search.next_step)
        assert step == ask(state, search.next_step)
        if isinstance(step, Found):
            assert state.left <= step.knee <= state.reach
            return state
        assert state.left <= step.replicas <= state.reach
        state = observe(state, Point(step.replicas, scores[step.replicas], scores[0], scores[1]))
        state = SearchState.from_plain(json.loads(json.dumps(state.as_plain())))
    pytest.fail("does not end")


def ends_when_others_served(search: Search, *, served: list[int], score: float) -> None:
    """Ends also when other replicas served than it asked for."""
    state = start(search.variant, 1, 40)
    for replicas in served:
        if isinstance(ask(state, search.next_step), Found):
            return
        state = observe(state, Point(replicas, score * replicas))
    pytest.fail("does not end")
