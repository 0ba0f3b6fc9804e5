"""Searches for the knee: a state machine that asks for one measurement at a time."""

from __future__ import annotations

from hpa_replacement.search import best, paper
from hpa_replacement.search.state import (
    Ask,
    Found,
    NextStep,
    Point,
    SearchState,
    Step,
    Variant,
    observe,
)

__all__ = ["Ask", "Found", "NextStep", "Point", "SearchState", "Step", "Variant", "ask", "observe", "start"]

_NEXT_STEPS: dict[Variant, NextStep] = {
    Variant.BEST: best.next_step,
    Variant.PAPER: paper.next_step,
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


def ask(state: SearchState, next_step: NextStep | None = None) -> Step:
    """What to measure next, or the knee; never outside [left, reach]. `next_step` replaces the variant's."""
    if state.left == state.reach:
        return Found(state.left, f"{state.left} replicas are all there is to choose from")
    return (next_step or _NEXT_STEPS[state.variant])(state)
