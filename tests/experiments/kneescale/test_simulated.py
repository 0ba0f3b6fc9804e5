"""Baselines of the simulated comparison, and that budgets are kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments.kneescale.openfaas_rule import OpenFaasRule
from experiments.kneescale.plan import STATIONARY, Load, Plan
from experiments.kneescale.simulated import (
    Constant,
    Hpa,
    OpenFaas,
    Scaler,
    baseline,
    functions_of,
    merged,
    play,
    run,
)
from experiments.kneescale.traffic_simulation import Sample
from kwok.traffic.function import Function
from kwok.traffic.functions import FUNCTIONS

SEEN = Sample(30.0, 10.0, 0.5, 2.0, 0.9, 4, 20)


def seen(utilisation: float | None, ready: int) -> list[Sample]:
    return [replace(SEEN, cpu_utilisation=utilisation, replicas_ready=ready)]


@pytest.mark.parametrize(
    ("utilisation", "replicas", "wanted"),
    [
        (0.9, 10, 15),  # ceil(10 * 0.9 / 0.6)
        (0.65, 10, 10),  # within the tolerance of 10 %
        (1.0, 3, 5),  # ceil(5.0)
        (3.0, 1, 5),  # no more than four at once where doubling is less
        (3.0, 10, 20),  # no more than twice as many
        (1.0, 70, 76),  # no more than there is room for
        (None, 7, 7),  # nothing measured, nothing done
    ],
)
def test_hpa_formula(utilisation: float | None, replicas: int, wanted: int) -> None:
    assert Hpa(0.6, 76).wanted(seen(utilisation, replicas), replicas) == wanted


def test_hpa_waits_five_minutes_before_it_scales_down() -> None:
    hpa = Hpa(0.6, 76)
    assert hpa.wanted(seen(0.6, 10), 10) == 10
    went = [hpa.wanted(seen(0.3, 10), 10) for _ in range(20)]
    assert went == [10] * 19 + [5]


def test_openfaas_rule_adds_a_fifth_every_ten_seconds_and_falls_back() -> None:
    rule = OpenFaas(OpenFaasRule(most=76))
    assert rule.first == 10
    replicas, went = 10, []
    for tick in range(1, 18):
        rate = 6.0 if tick <= 16 else 5.0  # not more than 5 is not enough
        sample = replace(SEEN, at_s=tick * rule.tick_s, throughput_per_s=rate)
        replicas = rule.wanted([sample], replicas)
        went.append(replicas)
    assert went == [10] * 4 + [26] * 4 + [42] * 4 + [58] * 4 + [10]


def test_openfaas_rule_stops_at_the_most() -> None:
    rule = OpenFaasRule(most=76)
    rule.replicas(0.0, 9.0, 70)
    assert rule.replicas(10.0, 9.0, 70) == 76


def test_over_its_budget_a_function_is_stopped() -> None:
    load = Load("stationary", 300.0, 40)
    function = FUNCTIONS["matmul"]
    trace = load.clients(["matmul"], None, 1)["matmul"]
    track = play(function, trace, load, Constant(10, samples=[4]), seed=1)
    assert track.replicas == [10] * 4 + [0] * 6
    assert min(track.score[:4]) > 0
    assert track.score[5:] == [0.0] * 5
    assert track.samples == [4]


def test_samples_one_after_the_other_are_one() -> None:
    second = replace(SEEN, at_s=60.0, throughput_per_s=30.0, latency_s=1.0, cpu_utilisation=None)
    idle = replace(SEEN, throughput_per_s=0.0, errors_per_s=0.0, latency_s=None)
    both = merged([SEEN, second])
    assert (both.throughput_per_s, both.latency_s, both.at_s) == (20.0, 1.25, 60.0)
    assert both.cpu_utilisation == 0.9
    assert merged([idle, idle]).latency_s is None


@pytest.mark.parametrize(("budget", "replicas"), [(1000, 33), (10, 1), (9000, 76)])
def test_a_constant_number_lasts_until_the_end(budget: int, replicas: int) -> None:
    load = replace(STATIONARY, budget=budget)
    scaler = baseline("constant", FUNCTIONS["matmul"], load)
    assert (scaler.first, scaler.wanted([SEEN], replicas)) == (replicas, replicas)


def constant_of(arm: str, function: Function, load: Load) -> Scaler:
    return Constant(30 if arm == "ours" else 10)


def test_all_functions_and_arms_are_played() -> None:
    assert len(functions_of(grid=True)) == 5 * len(functions_of(grid=False)) == 25
    plan = Plan.of({STATIONARY.first(0.2): 1}, ["ours", "hpa70"], 1, 1.0)
    said: list[str] = []
    names = ["matmul", "matmul-fast"]
    played = run(plan, {n: functions_of(grid=True)[n] for n in names}, constant_of, said.append)
    ((name, arms),) = played.items()
    assert {arm: list(functions) for arm, functions in arms.items()} == {"ours": names, "hpa70": names}
    assert sum(arms["ours"]["matmul"]["score"]) > sum(arms["hpa70"]["matmul"]["score"])
    assert said == [f"{name}: ours", f"{name}: hpa70"]
