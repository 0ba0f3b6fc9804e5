"""How many replicas, and why: one call a sampling interval. Pure; when in doubt the target is left alone."""

from __future__ import annotations

from dataclasses import replace

from hpa_replacement.decision import budget
from hpa_replacement.decision.algorithm2 import handle_load
from hpa_replacement.decision.context import Round
from hpa_replacement.decision.load_following import follow_load, note_load
from hpa_replacement.decision.model import Decision, NoSample, Sample, State
from hpa_replacement.decision.policy import Policy
from hpa_replacement.decision.searching import PATIENCE, go_on

__all__ = ["decide"]

# Intervals between two decisions after which the clock is not believed for one round.
_JUMP = 10
# Intervals after which a sample says nothing about now.
_STALE = 3


def decide(policy: Policy, state: State, sample: Sample | NoSample, now_s: float) -> Decision:
    last_s = state.decided_at_s
    state = replace(state, decided_at_s=now_s)
    if last_s is not None and not 0 <= now_s - last_s <= _JUMP * policy.interval_s:
        # Times of before mean nothing now; what was learnt stays.
        spending = state.spending
        if spending is not None and spending.window_start_s > now_s:
            spending = replace(spending, window_start_s=now_s)
        state = replace(state, asked_at_s=now_s, spending=spending)
        return _nothing(state, f"the clock went from {last_s:.0f} to {now_s:.0f} s since the last decision")
    if policy.budget is not None:
        state = _charge(policy, policy.budget, state, sample, now_s if last_s is None else last_s, now_s)
    else:
        state = replace(state, spending=None)
    why = sample.reason if isinstance(sample, NoSample) else _unusable(policy, sample, now_s)
    if policy.budget is not None and state.spending is not None:
        enough = budget.affordable(state.spending, policy.budget) >= policy.min_replicas
        if state.stopped and enough:
            state = replace(state, stopped=False, asked=policy.min_replicas, asked_at_s=now_s)
            return Decision(policy.min_replicas, state, ("a new budget: replicas again",))
        if state.stopped or (not enough and not why):
            return _spent(policy, policy.budget, state, now_s)
    if why or isinstance(sample, NoSample):
        return _nothing(state, why)
    state = replace(state, running=sample.replicas)
    decision = _decide(Round(policy, state, sample, now_s))
    running = sample.replicas if decision.replicas is None else decision.replicas
    kept = replace(decision.state, cpu_utilisation=sample.cpu_utilisation, running=running)
    return replace(decision, state=kept)


def _decide(this: Round) -> Decision:
    if this.ours:
        this = note_load(this)
    sample, state = this.sample, this.state
    if state.search is not None:
        if (
            state.search.variant is this.policy.search.variant
            and state.search.right <= this.policy.max_replicas
        ):
            return go_on(this)
        this = replace(this, state=replace(state, search=None))  # another policy than it was begun under
    if this.within(sample.replicas) != sample.replicas:
        return this.scale(
            sample.replicas, f"{sample.replicas} replicas are outside {this.low}..{this.ceiling}"
        )
    waited_s = this.now_s - this.state.asked_at_s
    if not sample.clean and this.state.asked is not None and waited_s <= PATIENCE * this.policy.interval_s:
        return this.stay(f"settling: {sample.ready_replicas} of {sample.replicas} Ready, window not clean")
    return follow_load(this) if this.ours else handle_load(this)


def _charge(
    policy: Policy,
    allowed: budget.Budget,
    state: State,
    sample: Sample | NoSample,
    since_s: float,
    now_s: float,
) -> State:
    # What the target was asked for, not what became of it: asked for is taken from others.
    replicas = sample.replicas if isinstance(sample, Sample) else state.running
    before = state.spending
    spending = budget.charge(before, allowed, policy.interval_s, replicas, since_s, now_s)
    if before is not None and before.window_start_s != spending.window_start_s:
        state = replace(state, load_count=0)  # its mean is forgotten with the next value
    return replace(state, spending=spending)


def _spent(policy: Policy, allowed: budget.Budget, state: State, now_s: float) -> Decision:
    replicas = budget.at_end(allowed, policy.min_replicas)
    state = replace(
        state, search=None, stopped=replicas == 0, asked=replicas, asked_at_s=now_s, running=replicas
    )
    return Decision(
        replicas, state, (f"the budget of {allowed.replica_intervals:g} is spent: {allowed.at_end}",)
    )


def _unusable(policy: Policy, sample: Sample, now_s: float) -> str:
    """Why nothing can be decided with this sample; empty when something can."""
    age_s = now_s - sample.window_end_s
    if not -policy.interval_s <= age_s <= _STALE * policy.interval_s:
        return f"the sample's window ended {age_s:.0f} s ago"
    if sample.capacity < policy.min_replicas:
        return f"capacity {sample.capacity} is below minReplicas {policy.min_replicas}"
    if sample.replicas == 0:
        return "the target has 0 replicas: somebody stopped it"
    return ""


def _nothing(state: State, why: str) -> Decision:
    return Decision(None, state, (why,), valid=False)
