"""Looking for the knee: a state machine that asks for one measurement at a time."""

from __future__ import annotations

from collections.abc import Callable

from hpa_replacement.search import best, hill_climbing, paper, random_search
from hpa_replacement.search.state import (
    Ask,
    Found,
    Point,
    SearchState,
    Step,
    Variant,
    observe,
)

__all__ = ["Ask", "Found", "Point", "SearchState", "Step", "Variant", "ask", "observe", "start"]

_NEXT_STEP: dict[Variant, Callable[[SearchState], Step]] = {
    Variant.BEST: best.next_step,
    Variant.PAPER: paper.next_step,
    Variant.HILL_CLIMBING: hill_climbing.next_step,
    Variant.RANDOM: random_search.next_step,
}


def start(
    variant: Variant,
    left: int,
    right: int,
    *,
    reach: int | None = None,
    seed: int = 0,
    evidence: tuple[Point, ...] = (),
    enough: int | None = None,
    least: int = 1,
) -> SearchState:
    reach = right if reach is None else reach
    return SearchState(variant, left, right, reach, seed, (), evidence, enough, least)


def ask(state: SearchState) -> Step:
    """What to measure next, or the knee; never outside [left, reach]."""
    if state.left == state.reach:
        return Found(state.left, f"{state.left} replicas are all there is to choose from")
    return _NEXT_STEP[state.variant](state)
