"""decide(): Algorithm 2, ours, and everything that must leave the target alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpa_replacement.decision.decide import decide
from hpa_replacement.decision.model import KnownKnee, NoSample, Sample, Scaling, Spending, State
from hpa_replacement.decision.policy import AtEnd, Budget, Policy, Search, Thresholds
from hpa_replacement.search import Point, Variant, start
from surgekit.decision import Decision

CALM = Sample(
    replicas=10, ready_replicas=10, ready_since_s=0.0, window_start_s=970.0, window_end_s=1000.0,
    throughput_per_s=6.9, errors_per_s=0.0, latency_s=2.9, cpu_utilisation=0.69, capacity=114,
)  # fmt: skip
PAPER = Policy(114, search=Search(Variant.PAPER))
BEST = Policy(114)
KNOWN = (KnownKnee(7.0, 20.0, 30), KnownKnee(14.0, 40.0, 60))
# 20 clients in a closed loop: concurrency stays while throughput follows the replicas
EVIDENCE = (Point(5, 0.9, 4.2, 20.0), Point(40, 9.2, 13.6, 20.0))


def at(now_s: float, sample: Sample = CALM, **changes: object) -> Sample:
    moved = replace(sample, window_start_s=now_s - 30, window_end_s=now_s)
    return replace(moved, **changes)  # type: ignore[arg-type]


def why(decision: Decision[Scaling]) -> str:
    return "; ".join(decision.reasons)


@pytest.mark.parametrize(
    ("sample", "state", "replicas", "reason"),
    [
        (CALM, State(), None, "no errors"),
        (replace(CALM, throughput_per_s=0.0, latency_s=None), State(), None, "no load"),
        # lines 14 and 15: as near as theta_thr
        (replace(CALM, errors_per_s=0.5), State(known=KNOWN), 30, "the knee known for 7/s"),
        (replace(CALM, errors_per_s=0.5, throughput_per_s=12.5), State(known=KNOWN), 60, "known for 14/s"),
        # lines 17 and 18: r + 1 to r + r_cluster / 2
        (replace(CALM, errors_per_s=0.5), State(), 11, "between 11 and 67"),
        (replace(CALM, errors_per_s=0.5, throughput_per_s=10.0), State(known=KNOWN), 11, "between 11 and 67"),
        # line 20: from theta_err on, to r_cluster
        (replace(CALM, errors_per_s=1.0), State(), 11, "between 11 and 114"),
        (replace(CALM, errors_per_s=1.0, replicas=114, ready_replicas=114), State(), None, "no search"),
        # lines 26 to 29
        (replace(CALM, cpu_utilisation=0.5), State(known=KNOWN, cpu_utilisation=0.6), 30, "fell from 60%"),
        (replace(CALM, cpu_utilisation=0.58), State(known=KNOWN, cpu_utilisation=0.6), None, "no fall"),
        (replace(CALM, cpu_utilisation=0.5), State(cpu_utilisation=0.6), None, "no knee is known yet"),
        (replace(CALM, cpu_utilisation=None), State(known=KNOWN, cpu_utilisation=0.6), None, "no fall"),
        # errors go first
        (
            replace(CALM, errors_per_s=0.5, cpu_utilisation=0.5),
            State(known=KNOWN, cpu_utilisation=0.6),
            30,
            "7/s",
        ),
    ],
)
def test_algorithm_2(sample: Sample, state: State, replicas: int | None, reason: str) -> None:
    decision = decide(PAPER, state, sample, 1000.0)
    assert decision.action.replicas == replicas
    assert decision.valid
    assert reason in why(decision)


def test_a_fall_of_utilisation_counts_beyond_its_threshold_only() -> None:
    policy = replace(PAPER, thresholds=Thresholds(cpu_drop=0.25))
    state = State(known=KNOWN, cpu_utilisation=1.0)
    for now, replicas in ((0.75, None), (0.74, 30)):
        assert decide(policy, state, replace(CALM, cpu_utilisation=now), 1000.0).action.replicas == replicas


def test_latency_triggers_as_errors_do_when_asked_to() -> None:
    limits = Thresholds(latency_s=2.0)
    assert decide(replace(PAPER, thresholds=limits), State(), CALM, 1000.0).action.replicas == 11
    assert decide(PAPER, State(), CALM, 1000.0).action.replicas is None


def test_a_known_knee_with_errors_at_it_is_forgotten_after_two_clean_samples() -> None:
    state, sample = State(known=KNOWN), replace(CALM, replicas=30, ready_replicas=30, errors_per_s=0.5)
    first = decide(PAPER, state, at(1000, sample), 1000.0)
    assert first.action.replicas is None
    unclean = decide(PAPER, first.action.state, at(1030, sample, ready_since_s=1020.0), 1030.0)
    assert unclean.action.replicas is None
    second = decide(PAPER, unclean.action.state, at(1060, sample), 1060.0)
    assert second.action.replicas == 31
    assert second.action.state.known == KNOWN[1:]
    assert second.action.state.search is not None
    # found again, it is believed
    confirmed = State(known=(replace(KNOWN[0], confirmed=True),), troubled=5)
    assert decide(PAPER, confirmed, at(1000, sample), 1000.0).action.replicas is None


@pytest.mark.parametrize("variant", Variant)
@pytest.mark.parametrize(
    ("sample", "now_s", "reason"),
    [
        (NoSample("Prometheus does not answer"), 1000.0, "Prometheus does not answer"),
        (replace(CALM, capacity=0), 1000.0, "capacity 0 is below minReplicas 1"),
        (CALM, 1200.0, "window ended 200 s ago"),
        (CALM, 900.0, "window ended -100 s ago"),
        (
            replace(CALM, replicas=0, ready_replicas=0, throughput_per_s=0.0, latency_s=None),
            1000.0,
            "0 replicas",
        ),
    ],
)
def test_in_doubt_replicas_stay(
    variant: Variant, sample: Sample | NoSample, now_s: float, reason: str
) -> None:
    state = State(known=KNOWN, evidence=EVIDENCE)
    decision = decide(Policy(114, search=Search(variant)), state, sample, now_s)
    assert decision.action.replicas is None
    assert not decision.valid
    assert reason in why(decision)
    assert decision.action.state.known == KNOWN


def test_a_decision_says_how_old_its_inputs_are_also_when_it_is_not_valid() -> None:
    for sample in (CALM, NoSample("Prometheus does not answer")):
        assert decide(BEST, State(), sample, 1000.0, {"pods": 2.0}).inputs_age_s == {"pods": 2.0}


@pytest.mark.parametrize("jump_s", [-1.0, -1e6, 301.0, 1e9])
def test_a_clock_that_jumps_stops_one_decision_and_nothing_else(jump_s: float) -> None:
    asked = decide(PAPER, State(), replace(CALM, errors_per_s=1.0), 1000.0)
    now_s = 1000.0 + jump_s
    jumped = decide(PAPER, asked.action.state, at(now_s), now_s)
    assert jumped.action.replicas is None
    assert not jumped.valid
    assert jumped.action.state.search == asked.action.state.search
    sample = at(now_s + 30, replicas=11, ready_replicas=11, ready_since_s=now_s)
    after = decide(PAPER, jumped.action.state, sample, now_s + 30)
    assert after.valid
    assert after.action.replicas == 114  # the second point of Algorithm 1


def test_a_search_counts_only_clean_samples_with_all_replicas_ready() -> None:
    begun = decide(PAPER, State(), replace(CALM, errors_per_s=1.0), 1000.0)
    assert begun.action.replicas == 11
    for changes, reason in (
        ({"replicas": 11, "ready_replicas": 10}, "10 Ready"),
        ({"replicas": 11, "ready_replicas": 11, "ready_since_s": 1001.0}, "window not clean"),
        ({"replicas": 10, "ready_replicas": 10}, "10 Ready"),
    ):
        waiting = decide(PAPER, begun.action.state, at(1030, **changes), 1030.0)
        assert waiting.action.replicas == 11
        assert reason in why(waiting)
        assert waiting.action.state.search == begun.action.state.search
    taken = decide(
        PAPER, begun.action.state, at(1030, replicas=11, ready_replicas=11, ready_since_s=1000.0), 1030.0
    )
    assert taken.action.state.search is not None
    assert [p.replicas for p in taken.action.state.search.points] == [11]


def test_patience_ends_with_what_is_there_or_with_giving_up() -> None:
    first = decide(PAPER, State(), replace(CALM, errors_per_s=1.0), 1000.0)
    begun = decide(PAPER, first.action.state, at(1030, replicas=11, ready_replicas=11), 1030.0)
    assert begun.action.replicas == 114
    state = replace(begun.action.state, decided_at_s=1220.0)
    there = decide(PAPER, state, at(1240, replicas=114, ready_replicas=70), 1240.0)
    assert there.action.state.search is not None
    assert there.action.state.search.points[-1].replicas == 70
    assert there.action.state.search.reach == 70
    assert there.action.replicas is not None
    assert there.action.replicas <= 70
    moving = decide(PAPER, state, at(1240, replicas=114, ready_replicas=70, ready_since_s=1239.0), 1240.0)
    assert moving.action.state.search is None
    assert moving.action.replicas == 10
    assert "given up" in why(moving)


def test_a_search_is_dropped_when_the_load_is_gone_or_the_policy_is_another() -> None:
    begun = decide(PAPER, State(), replace(CALM, errors_per_s=1.0), 1000.0)
    idle = at(1030, replicas=11, ready_replicas=11, throughput_per_s=0.0, latency_s=None)
    assert decide(PAPER, begun.action.state, idle, 1030.0).action.state.search is None
    sample = at(1030, replicas=11, ready_replicas=11)
    other = decide(BEST, begun.action.state, sample, 1030.0)
    assert other.action.state.search is not None
    assert other.action.state.search.variant is Variant.BEST


def test_capacity_that_shrinks_in_a_search_is_heeded() -> None:
    first = decide(PAPER, State(), replace(CALM, errors_per_s=1.0), 1000.0)
    begun = decide(PAPER, first.action.state, at(1030, replicas=11, ready_replicas=11), 1030.0)
    assert begun.action.replicas == 114
    shrunk = decide(PAPER, begun.action.state, at(1060, replicas=114, ready_replicas=40, capacity=40), 1060.0)
    assert shrunk.action.replicas is not None
    assert shrunk.action.replicas <= 40
    gone = decide(PAPER, begun.action.state, at(1060, replicas=114, ready_replicas=8, capacity=8), 1060.0)
    assert gone.action.state.search is None
    assert gone.action.replicas == 8


def test_cap_and_bounds_hold() -> None:
    capped = replace(PAPER, search=Search(Variant.PAPER, exploration_cap=20))
    begun = decide(capped, State(), replace(CALM, errors_per_s=1.0), 1000.0)
    second = decide(capped, begun.action.state, at(1030, replicas=11, ready_replicas=11), 1030.0)
    assert second.action.replicas == 20
    assert decide(replace(BEST, max_replicas=5), State(known=KNOWN), CALM, 1000.0).action.replicas == 5
    assert decide(replace(BEST, min_replicas=12), State(known=KNOWN), CALM, 1000.0).action.replicas == 12


# -- ours


def test_ours_searches_at_once_over_the_whole_range_when_nothing_is_known() -> None:
    decision = decide(BEST, State(), CALM, 1000.0)
    assert decision.action.state.search is not None
    assert (decision.action.state.search.left, decision.action.state.search.right) == (1, 114)
    assert decision.action.replicas is not None


@pytest.mark.parametrize(
    ("changes", "counts"),
    [({}, True), ({"ready_since_s": 990.0}, False), ({"errors_per_s": 0.5}, False)],
)
def test_a_search_starts_from_the_sample_at_hand_if_that_is_a_point_of_the_curve(
    changes: dict[str, float], counts: bool
) -> None:
    """Not if replicas changed in its window, and not with errors: its latency leaves out what failed."""
    search = decide(BEST, State(), replace(CALM, **changes), 1000.0).action.state.search  # type: ignore[arg-type]
    assert search is not None
    assert [point.replicas for point in search.evidence] == ([10] if counts else [])


@pytest.mark.parametrize(("policy", "throughput_per_s"), [(BEST, 9.5), (PAPER, 6.9)])
def test_a_knee_is_kept_for_the_load_it_holds_for(policy: Policy, throughput_per_s: float) -> None:
    """Variant best: that at the end of the search; Algorithm 2: t_current, that at its beginning."""
    state = State(
        search=start(policy.search.variant, 11, 12, reach=12), asked=11, search_throughput_per_s=6.9,
        decided_at_s=970.0,
    )  # fmt: skip
    for now_s in (1000.0, 1030.0, 1060.0):
        sample = at(now_s, replicas=state.asked, ready_replicas=state.asked, throughput_per_s=9.5)
        state = decide(policy, state, sample, now_s).action.state
        if state.search is None:
            break
    assert [k.throughput_per_s for k in state.known if not k.inferred] == [throughput_per_s]


@pytest.mark.parametrize(
    ("concurrency", "replicas", "reason"),
    [
        (20.0, 30, "knee at 30"),
        (30.0, 45, "knee at 45"),  # between
        (4.0, 6, "knee at 6"),  # below all: in proportion
        (6.7, None, "near enough"),
    ],
)
def test_ours_follows_the_load(concurrency: float, replicas: int | None, reason: str) -> None:
    sample = replace(CALM, throughput_per_s=6.9, latency_s=concurrency / 6.9)
    decision = decide(BEST, State(known=KNOWN, evidence=EVIDENCE), sample, 1000.0)
    assert decision.action.replicas == replicas
    assert reason in why(decision)


def test_no_load_is_the_fewest_and_far_more_load_a_new_search() -> None:
    state = State(known=KNOWN, evidence=EVIDENCE)
    assert (
        decide(BEST, state, replace(CALM, throughput_per_s=0.0, latency_s=None), 1000.0).action.replicas == 1
    )
    more = decide(BEST, state, replace(CALM, latency_s=90.0 / 6.9), 1000.0)
    assert more.action.state.search is not None


def test_ours_never_takes_replicas_away_while_there_are_errors_and_searches_again_if_they_stay() -> None:
    sample = replace(CALM, replicas=40, ready_replicas=40, errors_per_s=0.2)
    first = decide(BEST, State(known=KNOWN, evidence=EVIDENCE), at(1000, sample), 1000.0)
    assert first.action.replicas is None
    second = decide(BEST, first.action.state, at(1030, sample), 1030.0)
    assert second.action.state.known == ()
    assert second.action.state.evidence == ()
    assert second.action.state.search is not None
    assert second.action.state.doubted


def test_what_was_just_changed_is_given_time() -> None:
    state = State(known=KNOWN, evidence=EVIDENCE, asked=30, asked_at_s=990.0)
    sample = replace(CALM, replicas=30, ready_replicas=20, ready_since_s=995.0)
    assert "settling" in why(decide(BEST, state, sample, 1000.0))


# -- the budget

TIGHT = replace(BEST, budget=Budget(300, 900, AtEnd.STOP))


def test_ours_spreads_a_budget_over_its_window() -> None:
    """240 left for 20 intervals: 12 each, not the knee of 30 for 8 of them."""
    state = State(known=KNOWN, evidence=EVIDENCE, spending=Spending(700, 60 - 30), decided_at_s=970.0)
    thirty = replace(CALM, latency_s=20 / 6.9, replicas=30, ready_replicas=30)
    decision = decide(TIGHT, state, thirty, 1000.0)
    assert decision.action.state.spending == Spending(700, 60)
    assert decision.action.replicas == 12
    assert "budget" in why(decision)


@pytest.mark.parametrize(("errors_per_s", "replicas"), [(0.0, None), (0.5, 12)])
def test_a_budget_leaves_small_differences_alone_unless_there_are_errors(
    errors_per_s: float, replicas: int | None
) -> None:
    """New pods hold up requests until they have started: 10 instead of 12 costs less."""
    state = State(known=KNOWN, evidence=EVIDENCE, spending=Spending(700, 60 - 10), decided_at_s=970.0)
    sample = replace(CALM, latency_s=20 / 6.9, replicas=10, errors_per_s=errors_per_s)
    assert decide(TIGHT, state, sample, 1000.0).action.replicas == replicas


@pytest.mark.parametrize(("at_end", "replicas"), [(AtEnd.STOP, 0), (AtEnd.HOLD, 1)])
@pytest.mark.parametrize("variant", Variant)
def test_a_budget_that_is_spent_ends_as_set(variant: Variant, at_end: AtEnd, replicas: int) -> None:
    policy = Policy(114, search=Search(variant), budget=Budget(300, 900, at_end))
    state = State(known=KNOWN, evidence=EVIDENCE, spending=Spending(700, 290), decided_at_s=970.0)
    decision = decide(policy, state, CALM, 1000.0)
    assert decision.action.replicas == replicas
    assert "spent" in why(decision)


def test_what_the_budget_stopped_starts_again_with_the_next_window_without_a_sample() -> None:
    state = State(spending=Spending(700, 300), decided_at_s=1570.0, stopped=True, asked=0)
    still = decide(TIGHT, state, NoSample("no replicas, no metrics"), 1590.0)
    assert still.action.replicas == 0
    again = decide(TIGHT, still.action.state, NoSample("no replicas, no metrics"), 1610.0)
    assert again.action.replicas == 1
    assert not again.action.state.stopped


def test_what_the_budget_stopped_waits_for_room_to_start_again() -> None:
    state = State(spending=Spending(700, 300), decided_at_s=1590.0, stopped=True, asked=0)
    full = at(1610, replicas=0, ready_replicas=0, throughput_per_s=0.0, latency_s=None, capacity=0)
    waiting = decide(TIGHT, state, full, 1610.0)
    assert (waiting.action.replicas, waiting.valid) == (None, False)
    assert "capacity 0 is below minReplicas 1" in why(waiting)
    room = at(1640, full, capacity=5)
    assert decide(TIGHT, waiting.action.state, room, 1640.0).action.replicas == 1


def test_missing_samples_cost_what_ran() -> None:
    state = State(spending=Spending(700, 50), decided_at_s=970.0, running=8)
    decision = decide(TIGHT, state, NoSample("gap"), 1000.0)
    assert decision.action.state.spending == Spending(700, 58)
    nothing_ran = replace(State(), spending=Spending(700, 50), decided_at_s=970.0)
    assert decide(TIGHT, nothing_ran, NoSample("gap"), 1000.0).action.state.spending == Spending(700, 50)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"throughput_per_s": float("nan")}, "throughput_per_s: must be a number >= 0, is nan"),
        ({"errors_per_s": -1.0}, "errors_per_s: must be a number >= 0, is -1.0"),
        ({"latency_s": None}, "latency_s"),
        ({"latency_s": 0.0}, "latency_s"),
        ({"cpu_utilisation": float("inf")}, "cpu_utilisation"),
        ({"window_start_s": 1000.0}, "window_end_s: must be after"),
    ],
)
def test_a_sample_that_is_none_cannot_be_made(changes: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        replace(CALM, **changes)  # type: ignore[arg-type]
