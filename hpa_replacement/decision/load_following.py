"""Follows the load: goes to the knee of the present load without waiting for errors (variant best).

Algorithm 2 identifies a load by its throughput, which depends on the replicas, and moves only on errors or a
fall of CPU utilisation. Here the clients' side identifies a load (search/load.py), each load has its knee
(searching.py), and a budget may allow less (budget.py).
"""

from __future__ import annotations

from dataclasses import replace

from hpa_replacement.decision.context import DecisionContext
from hpa_replacement.decision.forecast import LOAD_MEMORY
from hpa_replacement.decision.model import Scaling, State
from hpa_replacement.decision.searching import (
    EVIDENCE_KEPT,
    TROUBLED_MAX,
    begin_search,
    is_confirmed,
    is_known,
    knee_for,
)
from hpa_replacement.search.load import TOO_FAR, load_of, near
from surgekit.decision import Decision

__all__ = ["follow_load", "remember_load"]

# Intervals for which replicas stay after their load has gone, without a budget: the 5 minutes the HPA waits
# before it scales down. Replicas follow a load an interval late, so bursts that return sooner would never
# have enough.
_SCALE_DOWN_DELAY = 10
# Relative changes up to this are not made: the HPA's tolerance.
_TOLERANCE = 0.1
# The same with a budget. Off its share by a little, an interval loses little (what one lacks another has),
# while each new pod holds up requests until it has started. Chosen on seeds 11 to 22 of `bench kneescale`.
_BUDGET_TOLERANCE = 0.3


def remember_load(context: DecisionContext) -> DecisionContext:
    """Add this interval's load to those remembered; drop a search once its load has fallen to a third."""
    state, here = context.state, context.sample.point()
    search = state.search
    points = state.evidence if search is None else (*search.evidence, *search.points)
    load = load_of(here, points)
    if search is not None and state.known and points and load < load_of(points[-1], points) / TOO_FAR:
        state = replace(state, search=None, doubted=False, evidence=points[-EVIDENCE_KEPT:])
    return replace(context, state=replace(state, loads=(*state.loads, load)[-LOAD_MEMORY:]))


def follow_load(context: DecisionContext) -> Decision[Scaling]:
    state, sample, here = context.state, context.sample, context.sample.point()
    load = load_of(here, state.evidence)
    budgeted = context.average_share is not None
    # A budget limits what a load gets, known or not. A search costs more than it would save: it takes samples
    # with too few replicas while the load is high, and mostly ends after the load has gone.
    if not state.known or not (budgeted or is_known(load, state.known, state.evidence)):
        return _search_unknown_load(context, load)
    # With a budget the forecast says what is kept for which load, up to the knee of the highest one.
    served = max((load, *(state.loads if budgeted else state.loads[-_SCALE_DOWN_DELAY:])))
    knee = _knee(context, served)
    why = f"load {served:.3g} has its knee at {knee}"
    desired, budget_reason = context.limit_to_share(knee)
    if context.trouble and sample.clean and sample.replicas >= knee:
        return _doubt_knee(context, state, load, why)
    if context.trouble:
        desired = max(desired, sample.replicas)  # errors never take replicas away
    desired = context.clamp(desired)
    state = replace(state, troubled=0)
    tolerance = _BUDGET_TOLERANCE if budgeted and not context.trouble else _TOLERANCE
    if abs(desired - sample.replicas) <= tolerance * sample.replicas:
        return context.hold(why, *budget_reason, f"{sample.replicas} is near enough", state=state)
    return context.scale(desired, why, *budget_reason, state=state)


def _search_unknown_load(context: DecisionContext, load: float) -> Decision[Scaling]:
    sample, evidence = context.sample, context.state.evidence
    if sample.idle:
        return context.hold("no load, and no knee is known")
    here = sample.point()
    # With errors the average latency leaves out what failed: no point of the curve.
    if here.score > 0 and sample.clean and not context.trouble:
        evidence = (*evidence, here)
    why = f"no knee is known for load {load:.3g}"
    return begin_search(context, context.low, context.high, why, evidence=near(load, evidence))


def _knee(context: DecisionContext, load: float) -> int:
    """The knee of this load. Beyond all known loads it is a guess, at least the budget's average share."""
    known, evidence = context.state.known, context.state.evidence
    knee = round(knee_for(load, known, evidence))
    if not is_known(load, known, evidence):
        knee = max(knee, int(context.average_share or 0))
    return min(max(knee, context.low), context.high)


def _doubt_knee(context: DecisionContext, state: State, load: float, why: str) -> Decision[Scaling]:
    """Errors although the knee's replicas run: after two clean samples forget all knees and search again."""
    troubled = state.troubled + 1
    if troubled < TROUBLED_MAX or is_confirmed(load, state.known, state.evidence):
        why_held = f"{context.trouble} although the knee's replicas run"
        return context.hold(why, why_held, state=replace(state, troubled=troubled))
    state = replace(state, known=(), evidence=(), doubted=True, troubled=0)
    why = f"{context.trouble} at the knee: it no longer holds"
    return begin_search(context, context.low, context.high, why, state=state)
