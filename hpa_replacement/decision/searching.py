"""Runs a search on a live target, and keeps the knees it found.

A search asks for replicas, waits for a clean sample with them, and ends with a knee or gives up. Knees are
kept as K of Algorithm 2 has them. Variant best keeps them by load: one knee is measured, and the points of
its search, moved to other loads (search/load.py), give the knees of the loads near it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hpa_replacement.decision.budget import BEYOND_KNEE
from hpa_replacement.decision.context import DecisionContext
from hpa_replacement.decision.model import KnownKnee, Scaling, State
from hpa_replacement.search import Found, Point, SearchState, ask, observe, start
from hpa_replacement.search.best import knee_at
from hpa_replacement.search.load import TOO_FAR, load_of
from surgekit.decision import Decision

__all__ = [
    "EVIDENCE_KEPT",
    "READY_WAIT",
    "TROUBLED_MAX",
    "begin_search",
    "continue_search",
    "is_confirmed",
    "is_known",
    "knee_for",
    "learn",
]

# Intervals to wait for all replicas to be Ready: an image pull on a slow node takes minutes.
READY_WAIT = 6
# Clean samples with errors at a known knee after which the knee is searched again.
TROUBLED_MAX = 2
EVIDENCE_KEPT = 10
_KNOWN_KEPT = 32  # the latest: the status of an object is small
# Loads, as multiples of the one searched at, for which a knee is inferred. Short of TOO_FAR: the loads of
# single points scatter, and at the very end of the range most points would be left out.
_INFERRED_LOADS = tuple(float(f) for f in np.geomspace(1 / (0.8 * TOO_FAR), 0.8 * TOO_FAR, 7))


def begin_search(
    context: DecisionContext,
    left: int,
    right: int,
    *reasons: str,
    state: State | None = None,
    evidence: tuple[Point, ...] = (),
) -> Decision[Scaling]:
    """FindKnee(left, right) of Algorithm 2: ask for its first sample, or answer if there is no choice."""
    state = state or context.state
    reach = min(context.search_ceiling, right)
    if reach < left:
        why = f"no search: {left} replicas are above the {reach} it may ask for"
        return context.hold(*reasons, why, state=state)
    search = start(
        context.policy.search.variant,
        left,
        right,
        reach=reach,
        seed=len(state.known),  # the same after a restart, another for each search
        evidence=evidence,
        enough=_enough(context),
        least=_least(context),
    )
    state = replace(
        state,
        searched_from=context.sample.replicas,
        search_throughput_per_s=context.sample.throughput_per_s,
        troubled=0,
    )
    return _take_step(context, state, search, *reasons, f"searching the knee between {left} and {right}")


def continue_search(context: DecisionContext) -> Decision[Scaling]:
    """Take the sample if it counts, else wait for one that does."""
    search, sample = context.state.search, context.sample
    asked = context.state.asked
    if search is None or asked is None:
        raise ValueError("search: none is under way")
    if sample.idle:
        return context.hold("search dropped: the load is gone", state=replace(context.state, search=None))
    reach = min(context.search_ceiling, search.right)
    if reach < search.left:
        return _give_up(context, f"it may ask for {reach} replicas, its left end is {search.left}")
    search = replace(search, reach=reach)
    if sample.clean and sample.replicas == asked:
        return _take_step(context, context.state, observe(search, sample.point()))
    if asked > context.ceiling:
        return _take_step(context, context.state, search, f"{asked} replicas are more than allowed now")
    return _wait_for_ready(context, search, asked)


def _wait_for_ready(context: DecisionContext, search: SearchState, asked: int) -> Decision[Scaling]:
    """Wait for the replicas asked for; then go on with those that are Ready, or give up."""
    sample = context.sample
    waited_s = context.now_s - context.state.asked_at_s
    if waited_s <= READY_WAIT * context.policy.interval_s:
        missing = "window not clean" if sample.ready_replicas == asked else f"{sample.ready_replicas} Ready"
        # Not scale(): asked_at_s must stay, or the wait would never end.
        return Decision(
            Scaling(asked, context.state), (f"waiting for a sample with {asked} replicas: {missing}",)
        )
    if sample.settled and search.left <= sample.ready_replicas < asked:
        search = observe(replace(search, reach=sample.ready_replicas), sample.point())
        why = f"only {sample.ready_replicas} of {asked} became Ready in {waited_s:.0f} s"
        return _take_step(context, context.state, search, why)
    return _give_up(context, f"{sample.ready_replicas} of {asked} replicas Ready after {waited_s:.0f} s")


def _take_step(
    context: DecisionContext, state: State, search: SearchState, *reasons: str
) -> Decision[Scaling]:
    step = ask(search, context.policy.search.next_step)
    if isinstance(step, Found):
        return _adopt_knee(context, state, search, step, *reasons)
    return context.scale(step.replicas, *reasons, step.reason, state=replace(state, search=search))


def _adopt_knee(
    context: DecisionContext, state: State, search: SearchState, found: Found, *reasons: str
) -> Decision[Scaling]:
    """K.append(t_current, k); r <- k (lines 22 and 23). Variant best keeps the load at the search's end."""
    here = context.sample.point()
    throughput_per_s = here.throughput_per_s if context.follows_load else state.search_throughput_per_s
    knee = KnownKnee(throughput_per_s, here.concurrency, found.knee, confirmed=state.doubted)
    points = (*search.evidence, *search.points)[-EVIDENCE_KEPT:]
    known = learn(state.known, search, knee) if context.follows_load else (*state.known, knee)
    state = replace(
        state, search=None, known=known[-_KNOWN_KEPT:], evidence=points, doubted=False, troubled=0
    )
    reasons = (*reasons, f"knee at {found.knee}: {found.reason}")
    if not context.follows_load:
        return context.scale(found.knee, *reasons, state=state)
    load = load_of(here, points)
    if load != load_of(here, search.evidence):  # the loads before were of the other quantity
        state = replace(state, loads=(load,))
        context = replace(context, state=state)
    replicas, budget_reason = context.limit_to_share(found.knee)
    return context.scale(replicas, *reasons, *budget_reason, state=state)


def _give_up(context: DecisionContext, why: str) -> Decision[Scaling]:
    state = replace(context.state, search=None, doubted=False)
    return context.scale(
        context.state.searched_from, f"search given up: {why}; back to where it began", state=state
    )


def _enough(context: DecisionContext) -> int | None:
    """A knee from here on is above what the budget affords: the search may end without its exact place."""
    average_share = context.average_share if context.follows_load else None
    return None if average_share is None else math.ceil(average_share / BEYOND_KNEE)


def _least(context: DecisionContext) -> int:
    """The fewest replicas to measure: far below its budget the function is served badly for nothing."""
    average_share = context.average_share if context.follows_load else None
    return 1 if average_share is None else max(int(average_share / 2), 1)


# -- K of Algorithm 2, by load (variant best)


def learn(known: Sequence[KnownKnee], search: SearchState, found: KnownKnee) -> tuple[KnownKnee, ...]:
    """Add the knee found and those inferred from it; forget the older ones of the loads it covers."""
    points = (*search.evidence, *search.points)
    load = _load(found, points)
    if load <= 0:
        return (found,)
    kept = [k for k in known if not load / TOO_FAR <= _load(k, points) <= load * TOO_FAR]
    inferred = [
        KnownKnee(
            found.throughput_per_s * factor, found.concurrency * factor,
            knee_at(load * factor, points, search.left, search.right), inferred=True,
        )
        for factor in _INFERRED_LOADS if abs(factor - 1) > 0.1
    ]  # fmt: skip
    return (*kept, *inferred, found)


def is_known(load: float, known: Sequence[KnownKnee], points: tuple[Point, ...]) -> bool:
    """Whether the load is no higher than the highest one with a known knee."""
    return load <= max(_load(k, points) for k in known)


def is_confirmed(load: float, known: Sequence[KnownKnee], points: tuple[Point, ...]) -> bool:
    """Whether a knee of about this load was doubted and found again."""
    return any(k.confirmed and load / TOO_FAR <= _load(k, points) <= load * TOO_FAR for k in known)


def knee_for(load: float, known: Sequence[KnownKnee], points: tuple[Point, ...]) -> float:
    """Interpolate between known loads; outside them replicas are in proportion to the load."""
    pairs = sorted((_load(k, points), float(k.replicas)) for k in known)
    highest, most = pairs[-1]
    if load > highest > 0:
        return most * load / highest
    return float(np.interp(load, [0.0, *(p[0] for p in pairs)], [0.0, *(p[1] for p in pairs)]))


def _load(knee: KnownKnee, points: tuple[Point, ...]) -> float:
    return load_of(Point(knee.replicas, 0.0, knee.throughput_per_s, knee.concurrency), points)
