"""Decides once a sampling interval how many replicas a target gets. In doubt it leaves the target alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from hpa_replacement.decision import budget
from hpa_replacement.decision.algorithm2 import handle_load
from hpa_replacement.decision.context import DecisionContext
from hpa_replacement.decision.load_following import follow_load, remember_load
from hpa_replacement.decision.model import NoSample, Sample, Scaling, State
from hpa_replacement.decision.policy import Policy
from hpa_replacement.decision.searching import READY_WAIT, continue_search
from surgekit.decision import Decision

__all__ = ["decide"]

# Intervals between two decisions beyond which the clock is taken to have jumped.
_CLOCK_JUMP = 10
# Intervals after which a sample is too old to decide on.
_STALE = 3


def decide(
    policy: Policy,
    state: State,
    sample: Sample | NoSample,
    now_s: float,
    inputs_age_s: Mapping[str, float] = MappingProxyType({}),
) -> Decision[Scaling]:
    """`inputs_age_s`: of the sample and the tables behind it, by source; the decision carries them along."""
    return replace(_decide(policy, state, sample, now_s), inputs_age_s=inputs_age_s)


def _decide(policy: Policy, state: State, sample: Sample | NoSample, now_s: float) -> Decision[Scaling]:
    last_s = state.decided_at_s
    state = replace(state, decided_at_s=now_s)
    if last_s is not None and not 0 <= now_s - last_s <= _CLOCK_JUMP * policy.interval_s:
        return _after_clock_jump(state, last_s, now_s)
    state = _charge_budget(policy, state, sample, now_s if last_s is None else last_s, now_s)
    unusable = sample.reason if isinstance(sample, NoSample) else _why_unusable(policy, sample, now_s)
    state = replace(state, idle_since_s=None if unusable else _idle_since_s(state, sample))
    ended = _end_or_renew_budget(policy, state, sample, now_s, usable=not unusable)
    if ended is not None:
        return ended
    if unusable or isinstance(sample, NoSample):
        return _undecided(state, unusable)
    state = replace(state, running=sample.replicas)
    decision = _scale(DecisionContext(policy, state, sample, now_s))
    replicas = decision.action.replicas
    running = sample.replicas if replicas is None else replicas
    kept = replace(decision.action.state, cpu_utilisation=sample.cpu_utilisation, running=running)
    return replace(decision, action=Scaling(replicas, kept))


def _scale(context: DecisionContext) -> Decision[Scaling]:
    """Go on with a search, return to the bounds, wait for replicas to be Ready, or handle the load."""
    if context.follows_load:
        context = remember_load(context)
    policy, state, sample = context.policy, context.state, context.sample
    if state.search is not None:
        if state.search.variant is policy.search.variant and state.search.right <= policy.max_replicas:
            return continue_search(context)
        context = replace(context, state=replace(state, search=None))  # the policy has changed since
    if context.clamp(sample.replicas) != sample.replicas:
        why = f"{sample.replicas} replicas are outside {context.low}..{context.ceiling}"
        return context.scale(sample.replicas, why)
    waited_s = context.now_s - state.asked_at_s
    if not sample.clean and state.asked is not None and waited_s <= READY_WAIT * policy.interval_s:
        return context.hold(f"settling: {sample.ready_replicas} of {sample.replicas} Ready, window not clean")
    return follow_load(context) if context.follows_load else handle_load(context)


def _after_clock_jump(state: State, last_s: float, now_s: float) -> Decision[Scaling]:
    """Skip one decision: earlier times mean nothing now. Everything learnt stays."""
    spending = state.spending
    if spending is not None and spending.window_start_s > now_s:
        spending = replace(spending, window_start_s=now_s)
    state = replace(state, asked_at_s=now_s, spending=spending)
    return _undecided(state, f"the clock went from {last_s:.0f} to {now_s:.0f} s since the last decision")


def _charge_budget(
    policy: Policy, state: State, sample: Sample | NoSample, since_s: float, now_s: float
) -> State:
    if policy.budget is None:
        return replace(state, spending=None)
    # spec.replicas counts, Ready or not: pods that are starting hold their resources, too.
    replicas = sample.replicas if isinstance(sample, Sample) else state.running
    spending = budget.charge(
        state.spending,
        policy.budget,
        interval_s=policy.interval_s,
        replicas=replicas,
        since_s=since_s,
        now_s=now_s,
    )
    return replace(state, spending=spending)


def _end_or_renew_budget(
    policy: Policy, state: State, sample: Sample | NoSample, now_s: float, *, usable: bool
) -> Decision[Scaling] | None:
    """Stop or hold when the budget is spent, start again in a new window; None: go on deciding."""
    if policy.budget is None or state.spending is None:
        return None
    enough = budget.affordable(state.spending, policy.budget) >= policy.min_replicas
    if state.stopped and enough:
        if isinstance(sample, Sample) and sample.capacity < policy.min_replicas:
            return None  # no room to start again
        state = replace(state, stopped=False, asked=policy.min_replicas, asked_at_s=now_s)
        return Decision(
            Scaling(policy.min_replicas, state), ("a new budget window: start again with minReplicas",)
        )
    if not state.stopped and (enough or not usable):
        return None
    replicas = budget.at_end(policy.budget, policy.min_replicas)
    state = replace(
        state, search=None, stopped=replicas == 0, asked=replicas, asked_at_s=now_s, running=replicas
    )
    why = f"the budget of {policy.budget.replica_intervals:g} is spent: {policy.budget.at_end}"
    return Decision(Scaling(replicas, state), (why,))


def _idle_since_s(state: State, sample: Sample | NoSample) -> float | None:
    """An interval without a sample may have had requests: then the idle time begins anew."""
    if isinstance(sample, NoSample) or not sample.idle:
        return None
    return sample.window_start_s if state.idle_since_s is None else state.idle_since_s


def _why_unusable(policy: Policy, sample: Sample, now_s: float) -> str:
    """Why this sample is no basis for a decision; empty when it is one."""
    age_s = now_s - sample.window_end_s
    if not -policy.interval_s <= age_s <= _STALE * policy.interval_s:
        return f"the sample's window ended {age_s:.0f} s ago"
    if sample.capacity < policy.min_replicas:
        return f"capacity {sample.capacity} is below minReplicas {policy.min_replicas}"
    if sample.replicas == 0:
        return "the target has 0 replicas: it was stopped from outside"
    return ""


def _undecided(state: State, why: str) -> Decision[Scaling]:
    return Decision(Scaling(None, state), (why,), valid=False)
