"""Ours: the knee of the load there is now, without waiting for errors (variant best).

Algorithm 2 knows a load by its throughput, which depends on the replicas, and moves only on errors or a fall
of CPU utilisation. Here a load is known by what the clients determine (search/load.py); each has its knee
(known_knees.py); a budget may allow less (thrift.py).
"""

from __future__ import annotations

from dataclasses import replace

from hpa_replacement.decision.algorithm2 import TROUBLED_MAX
from hpa_replacement.decision.budget_share import (
    PEAK_MEMORY,
    average_share,
    share_of_budget,
    standing,
    worth_having,
)
from hpa_replacement.decision.context import Round
from hpa_replacement.decision.known_knees import confirmed, covers, knee_for
from hpa_replacement.decision.model import Decision, State
from hpa_replacement.decision.searching import EVIDENCE_KEPT, begin
from hpa_replacement.search.load import TOO_FAR, load_of, near

__all__ = ["follow_load", "note_load"]

# Intervals for which a load that went is still provided for: the 5 minutes the HPA waits before it scales
# down. Replicas follow a load an interval late, so bursts that come back sooner would never have theirs.
_REMEMBERED = 10
# Relative changes below this are not worth a change: the HPA's tolerance.
_TOLERANCE = 0.1


def follow_load(this: Round) -> Decision:
    state, sample, here = this.state, this.sample, this.sample.point()
    # With errors the average latency lacks what failed: no point of the curve.
    evidence = (
        (*state.evidence, here) if here.score > 0 and sample.clean and not this.trouble else state.evidence
    )
    load = load_of(here, state.evidence)
    highest = max((load, *state.loads[-_REMEMBERED:]))
    if not state.known or not covers(load, state.known, state.evidence):
        if sample.idle:
            return this.stay("no load, and no knee is known")
        why = f"no knee is known for load {load:.3g}"
        return begin(this, this.low, this.high, why, evidence=near(load, evidence))
    wanted = _knee(this, state, highest)
    why = f"load {highest:.3g} has its knee at {wanted}"
    share, state = share_of_budget(this, state, highest)
    if this.trouble and wanted <= sample.replicas and sample.clean and (share is None or share >= wanted):
        return _doubt(this, state, load, why)
    wanted, thrift = worth_having(wanted, share)
    kept = standing(this, state, _knee(this, state, max((load, *state.loads))))
    if kept > wanted:
        wanted, thrift = kept, (f"the budget keeps {kept} standing for the next peak",)
    if this.trouble:
        wanted = max(wanted, sample.replicas)  # errors are no reason for fewer
    replicas = this.within(wanted)
    state = replace(state, troubled=0)
    if abs(replicas - sample.replicas) <= _TOLERANCE * sample.replicas:
        return this.stay(why, *thrift, f"{sample.replicas} is near enough", state=state)
    return this.scale(replicas, why, *thrift, state=state)


def _knee(this: Round, state: State, load: float) -> int:
    """Beyond all known loads the knee is a guess; a budget with more to give says that less is no use."""
    knee = round(knee_for(load, state.known, state.evidence))
    if not covers(load, state.known, state.evidence):
        knee = max(knee, int(average_share(this, state) or 0))
    return min(max(knee, this.low), this.high)


def note_load(this: Round) -> Round:
    """The load of this interval joins those remembered. A search is set aside when its load is gone."""
    state, here = this.state, this.sample.point()
    search = state.search
    points = state.evidence if search is None else (*search.evidence, *search.points)
    load = load_of(here, points)
    if search is not None and state.known and points and load < load_of(points[-1], points) / TOO_FAR:
        state = replace(state, search=None, doubted=False, evidence=points[-EVIDENCE_KEPT:])
    return replace(this, state=replace(state, loads=(*state.loads, load)[-PEAK_MEMORY:]))


def _doubt(this: Round, state: State, load: float, why: str) -> Decision:
    """Errors with as many replicas as the knee asks for: after two clean samples all is learnt anew."""
    troubled = state.troubled + 1
    if troubled < TROUBLED_MAX or confirmed(load, state.known, state.evidence):
        return this.stay(why, f"{this.trouble} with these many", state=replace(state, troubled=troubled))
    state = replace(state, known=(), evidence=(), doubted=True, troubled=0)
    return begin(this, this.low, this.high, f"{this.trouble} at the knee: it no longer holds", state=state)
