"""Gains and samples from what was played."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from experiments.kneescale.figures import figures, front, front_points, gains, ratios
from experiments.kneescale.pictures import draw_all
from experiments.kneescale.plan import DYNAMIC, STATIONARY, Plan, Played
from experiments.kneescale.track import Track

QUANTILES = {"p5": 0.1, "p25": 0.2, "p50": 0.3, "p75": 0.4, "p95": 0.5, "p99": 0.6}


def track(scores: list[float], samples: list[int] | None = None, knees: list[int] | None = None) -> Track:
    made = Track(samples=samples or [], knees=knees or [])
    for score in scores:
        made.note(3, 20, score, 0.0, 1.0)
    return made


def played_of(plan: Plan, rounds: list[dict[str, dict[str, Track]]]) -> Played:
    return {
        name: {arm: {f: asdict(t) for f, t in functions.items()} for arm, functions in arms.items()}
        for (_, _, name), arms in zip(plan.rounds(), rounds, strict=True)
    }


def test_gains_are_of_medians_over_rounds() -> None:
    plan = Plan.of({STATIONARY: 3}, ["ours", "hpa70"], 2, 4.0)
    rounds = [
        {
            "ours": {"f": track([score, 1.0], [n], [30 + n]), "g": track([4.0])},
            "hpa70": {"f": track([2.0]), "g": track([5.0])},
        }
        for score, n in ((2.0, 5), (100.0, 6), (3.0, 10))
    ]
    found = figures(played_of(plan, rounds), plan)
    assert found["gain_over"]["stationary"]["hpa70"] == {
        "best": 1.0, "mean": 0.4, "median": 0.4, "by_function": {"f": 1.0, "g": -0.2},
    }  # fmt: skip
    ratio = found["ratio_over"]["stationary"]["hpa70"]
    assert ratio["geomean"] == pytest.approx((1.5 * 50.5 * 2.0 * 0.8**3) ** (1 / 6), abs=1e-3)
    assert ratio["low"] < ratio["geomean"] < ratio["high"]
    assert (found["samples_mean"], found["samples_max"]) == (7, 10)
    assert found["knees_found"] == {"f": [35, 36, 40], "g": []}
    assert found["performance"]["stationary"]["ours"] == {"f": 4.0, "g": 4.0}


def test_without_ours_there_is_nothing_to_compare_and_nothing_served_has_no_ratio() -> None:
    assert gains({"hpa70": {"f": 1.0}}) == {}
    assert gains({"ours": {"f": 1.0, "g": 1.0}, "hpa70": {"f": 0.0, "g": 2.0}})["hpa70"]["by_function"] == {
        "g": -0.5
    }


def test_ratios_leave_out_what_an_arm_never_served() -> None:
    scores = {"ours": {"f": [1.0], "g": [3.0]}, "hpa70": {"f": [0.0], "g": [2.0]}, "hpa90": {"f": [0.0]}}
    assert ratios(scores) == {"hpa70": {"geomean": 1.5, "low": 1.5, "high": 1.5}}
    assert ratios({"hpa70": {"f": [1.0]}}) == {}


def test_an_interval_in_which_nothing_was_answered_scores_nothing() -> None:
    made = Track()
    made.note(0, 20, 0.0, 1.0, None)
    made.note(5, 20, 6.0, 0.0, 2.0)
    assert (made.score, made.latency_s, made.performance) == ([0.0, 3.0], [None, 2.0], 3.0)


@pytest.mark.parametrize("live", [True, False])
def test_a_picture_for_each_figure(tmp_path: Path, live: bool) -> None:
    plan = Plan.of({STATIONARY: 2}, ["ours", "openfaas"], 2, 4.0)
    one = {"ours": {"f": track([1.0, 2.0])}, "openfaas": {"f": track([0.0, 0.0])}}
    if live:
        one["ours"]["f"].latency_quantiles_s, one["ours"]["f"].first_latencies_s = QUANTILES, [1.0, 0.5]
    files = draw_all(played_of(plan, [one, one]), plan, tmp_path / "plots")
    requests = ["latency", "first-invocations"] if live else []
    assert [f.name for f in files] == [
        f"stationary-{what}.png"
        for what in ("performance", "replicas", "spent", "throughput", *requests, "front")
    ]
    assert all(f.read_bytes().startswith(b"\x89PNG") for f in files)


def test_an_arm_is_better_in_both_if_it_is_cheaper_and_quicker_and_serves_as_many() -> None:
    def served(replicas: float, latency: float, requests: float = 10.0) -> dict[str, list[dict[str, float]]]:
        one = {"replicas": replicas, "latency": latency, "requests": requests, "score_per_replica": 1.0}
        return {"web": [one]}

    arms = {
        "ours": served(10, 1.0),
        "better": served(9, 0.9),
        "dearer": served(11, 0.9),
        "slower": served(9, 1.1),
        "stopped": served(5, 0.9, requests=5.0),
    }
    found = front(arms)
    assert {arm: of["better_in_both"] for arm, of in found.items()} == {
        "better": True, "dearer": False, "slower": False, "stopped": False,
    }  # fmt: skip
    assert found["dearer"]["replicas"]["geomean"] == 1.1


def test_the_front_is_relative_to_ours_at_the_first_budget() -> None:
    def served(replicas: int, latency_s: float, throughput_per_s: float = 10.0) -> Track:
        made = Track()
        made.note(replicas, 20, throughput_per_s, 0.0, latency_s)
        return made

    plan = Plan.of({DYNAMIC: 2, DYNAMIC.with_budget(2): 2}, ["ours", "openfaas"], 2, 4.0)
    never = Track()
    never.note(10, 20, 0.0, 1.0, None)
    usual = {
        "ours": {"f": served(10, 2.0), "g": served(20, 4.0)},
        "openfaas": {"f": served(5, 8.0, 5.0), "g": never},
    }
    twice = {"ours": {"f": served(20, 1.0), "g": served(40, 2.0)}, "openfaas": usual["openfaas"]}
    found = front_points(played_of(plan, [usual, usual, twice, twice]), plan, "dynamic")
    assert [pytest.approx(point) for point in found["ours"]] == [(1.0, 1.0), (2.0, 0.5)]
    assert [pytest.approx(point) for point in found["openfaas"]] == [(1.0, 4.0), (1.0, 4.0)], (
        "half the replicas for half of the requests"
    )


def test_budgets_are_loads_of_their_own() -> None:
    half = DYNAMIC.with_budget(0.5)
    assert (half.budget, half.label, DYNAMIC.label) == (3000, "dynamic, 0.5 x budget", "dynamic")
    assert half.constant(100) == 12
