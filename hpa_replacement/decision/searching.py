"""A search carried out on a live target: what is asked for, when a sample counts, when it is given up."""

from __future__ import annotations

import math
from dataclasses import replace

from hpa_replacement.decision.budget_share import BEYOND_KNEE, average_share, share_of_budget, worth_having
from hpa_replacement.decision.context import Round
from hpa_replacement.decision.known_knees import learn
from hpa_replacement.decision.model import Decision, KnownKnee, State
from hpa_replacement.search import Found, Point, SearchState, ask, observe, start
from hpa_replacement.search.load import load_of

__all__ = ["EVIDENCE_KEPT", "PATIENCE", "begin", "go_on"]

# Intervals to wait for all replicas to be Ready: an image pull on a slow node takes minutes.
PATIENCE = 6
EVIDENCE_KEPT = 10
_KNOWN_KEPT = 32  # the latest: the status of an object is small


def begin(
    this: Round,
    left: int,
    right: int,
    *reasons: str,
    state: State | None = None,
    evidence: tuple[Point, ...] = (),
) -> Decision:
    """FindKnee(left, right) of Algorithm 2: its first sample, or its answer when there is nothing to ask."""
    state = state or this.state
    reach = min(this.reach, right)
    if reach < left:
        return this.stay(
            *reasons, f"no search: {left} replicas are above the {reach} it may ask for", state=state
        )
    # A seed that any restart finds again, and that differs from search to search.
    seed = len(state.known)
    search = start(
        this.policy.search.variant,
        left,
        right,
        reach=reach,
        seed=seed,
        evidence=evidence,
        enough=_enough(this),
        least=_least(this),
    )
    state = replace(
        state,
        searched_from=this.sample.replicas,
        search_throughput_per_s=this.sample.throughput_per_s,
        troubled=0,
    )
    return _next(this, state, search, *reasons, f"searching the knee between {left} and {right}")


def go_on(this: Round) -> Decision:
    """One sample further, if the sample is one."""
    search, sample = this.state.search, this.sample
    asked = this.state.asked
    if search is None or asked is None:
        raise ValueError("search: there is none to go on with")
    if sample.idle:
        return this.stay("search dropped: the load is gone", state=replace(this.state, search=None))
    reach = min(this.reach, search.right)
    if reach < search.left:
        return _give_up(
            this, f"{reach} replicas are all it may ask for, less than its left end {search.left}"
        )
    search = replace(search, reach=reach)
    if sample.clean and sample.replicas == asked:
        return _next(this, this.state, observe(search, sample.point()))
    if asked > this.ceiling:
        return _next(this, this.state, search, f"{asked} replicas are more than there may be now")
    return _wait(this, search, asked)


def _wait(this: Round, search: SearchState, asked: int) -> Decision:
    """For all replicas asked for; in the end with those there are, or not at all."""
    sample = this.sample
    waited_s = this.now_s - this.state.asked_at_s
    if waited_s <= PATIENCE * this.policy.interval_s:
        missing = "window not clean" if sample.ready_replicas == asked else f"{sample.ready_replicas} Ready"
        # Not scale(): the time of asking stays, or patience would never end.
        return Decision(asked, this.state, (f"waiting for a sample with {asked} replicas: {missing}",))
    if sample.settled and search.left <= sample.ready_replicas < asked:
        search = observe(replace(search, reach=sample.ready_replicas), sample.point())
        why = f"only {sample.ready_replicas} of {asked} became Ready in {waited_s:.0f} s"
        return _next(this, this.state, search, why)
    return _give_up(this, f"{sample.ready_replicas} of {asked} replicas Ready after {waited_s:.0f} s")


def _next(this: Round, state: State, search: SearchState, *reasons: str) -> Decision:
    step = ask(search)
    if isinstance(step, Found):
        return _adopt(this, state, search, step, *reasons)
    return this.scale(step.replicas, *reasons, step.reason, state=replace(state, search=search))


def _adopt(this: Round, state: State, search: SearchState, found: Found, *reasons: str) -> Decision:
    """K.append(t_current, k); r <- k (lines 22 and 23). Ours goes by the load at the end of the search."""
    now = this.sample.point()
    throughput_per_s = now.throughput_per_s if this.ours else state.search_throughput_per_s
    knee = KnownKnee(throughput_per_s, now.concurrency, found.knee, confirmed=state.doubted)
    points = (*search.evidence, *search.points)[-EVIDENCE_KEPT:]
    known = learn(state.known, search, knee) if this.ours else (*state.known, knee)
    state = replace(
        state, search=None, known=known[-_KNOWN_KEPT:], evidence=points, doubted=False, troubled=0
    )
    reasons = (*reasons, f"knee at {found.knee}: {found.reason}")
    if not this.ours:
        return this.scale(found.knee, *reasons, state=state)
    share, state = share_of_budget(this, state, load_of(now, points))
    replicas, thrift = worth_having(found.knee, share)
    return this.scale(replicas, *reasons, *thrift, state=state)


def _enough(this: Round) -> int | None:
    """A knee from here on leaves what the budget affords as it is: where exactly need not be known."""
    each = average_share(this, this.state) if this.ours else None
    return None if each is None else math.ceil(each / BEYOND_KNEE)


def _least(this: Round) -> int:
    """Far below what the budget gives the function is served badly, and nobody would choose it."""
    each = average_share(this, this.state) if this.ours else None
    return 1 if each is None else max(int(each / 2), 1)


def _give_up(this: Round, why: str) -> Decision:
    state = replace(this.state, search=None, doubted=False)
    return this.scale(
        this.state.searched_from, f"search given up: {why}; back to where it began", state=state
    )
