"""Whatever comes in: bounds, budget, determinism, and nothing but decisions out."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hpa_replacement.decision import budget
from hpa_replacement.decision.decide import decide
from hpa_replacement.decision.model import NoSample, Sample, State
from hpa_replacement.decision.policy import AtEnd, Budget, Policy, Search, Thresholds
from hpa_replacement.search import SearchState, Variant

policies = st.builds(
    lambda low, width, variant, cap, allowed, at_end, latency: Policy(
        low + width, low, 30.0, Thresholds(latency_s=latency),
        Search(variant, None if cap is None else low + cap),
        None if allowed is None else Budget(allowed, 900.0, at_end),
    ),
    st.integers(1, 5), st.integers(0, 60), st.sampled_from(Variant), st.none() | st.integers(0, 30),
    st.none() | st.floats(1, 2000), st.sampled_from(AtEnd), st.none() | st.floats(0.1, 10),
)  # fmt: skip

readings = st.tuples(
    st.sampled_from(["sample"] * 8 + ["none", "unready", "unclean", "foreign"]),
    st.floats(0.01, 100),  # throughput
    st.sampled_from([0.0, 0.0, 0.4, 3.0]),  # errors
    st.floats(0.01, 30),  # latency
    st.floats(0, 1),
    st.sampled_from([70, 70, 70, 20, 1, 0]),  # capacity
    st.sampled_from([30.0] * 9 + [31.0, -5.0, 4000.0]),
    st.booleans(),
)


@given(policies, st.lists(readings, min_size=1, max_size=40), st.integers(1, 65))
@settings(max_examples=80)
def test_decisions_stay_within_bounds_and_budget(policy: Policy, rounds: list[tuple], replicas: int) -> None:  # type: ignore[type-arg]
    state, now_s = State(), 0.0
    for kind, throughput, errors, latency, cpu, capacity, step_s, idle in rounds:
        now_s += step_s
        ready = replicas - 1 if kind == "unready" else replicas
        sample: Sample | NoSample = NoSample("gap")
        if kind != "none":
            sample = Sample(
                replicas, max(ready, 0), now_s - (5 if kind == "unclean" else 60), now_s - 30, now_s,
                0.0 if idle else throughput, 0.0 if idle else errors, None if idle else latency,
                cpu, capacity,
            )  # fmt: skip
        decision = decide(policy, state, sample, now_s)
        assert decision == decide(policy, state, sample, now_s)
        assert decision.reasons
        assert decision.valid or decision.action.replicas is None
        state = decision.action.state
        if state.search is not None:
            plain = json.loads(json.dumps(state.search.as_plain()))
            assert SearchState.from_plain(plain) == state.search
        if decision.action.replicas is not None:
            _check(policy, state, decision.action.replicas, sample)
            replicas = decision.action.replicas
        if kind == "foreign":
            replicas = max(replicas - 2, 0)


def _check(policy: Policy, state: State, replicas: int, sample: Sample | NoSample) -> None:
    if policy.budget is not None:
        assert state.spending is not None
        affordable = budget.affordable(state.spending, policy.budget)
        end = budget.at_end(policy.budget, policy.min_replicas)
        assert replicas <= max(affordable, end)
        if replicas == end:
            return
    assert policy.min_replicas <= replicas <= policy.max_replicas
    if isinstance(sample, Sample):
        assert replicas <= sample.capacity
    cap = policy.search.exploration_cap
    assert cap is None or replicas <= cap


@given(policies)
@settings(max_examples=20)
def test_a_search_on_a_live_target_ends(policy: Policy) -> None:
    policy = replace(policy, budget=None)
    state, replicas, now_s = State(), policy.min_replicas, 0.0
    for _ in range(200):
        now_s += 30
        throughput = 20 * replicas / (replicas + 19)
        sample = Sample(
            replicas, replicas, now_s - 30, now_s - 30, now_s, throughput, 0.5, 20 / throughput, 0.5, 70
        )
        decision = decide(policy, state, sample, now_s)
        state = decision.action.state
        replicas = replicas if decision.action.replicas is None else decision.action.replicas
        if state.known and state.search is None:
            return
        if "no search" in "; ".join(decision.reasons):
            return
    raise AssertionError(state)
