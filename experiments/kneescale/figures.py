"""Figures of the comparison: ours against each arm, function by function."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.intervals import geometric_mean, rounded
from experiments.kneescale.plan import OURS, STATIONARY, Plan, Played

__all__ = ["figures", "front", "front_points", "gains", "ratios"]

_FRONT = ("replicas", "latency", "requests")
Performance = Mapping[str, Mapping[str, float]]  # arm -> function -> cumulative score


def figures(played: Played, plan: Plan) -> dict[str, Any]:
    """Gains of medians over rounds."""
    scores: dict[str, dict[str, dict[str, list[float]]]] = {}
    totals: dict[str, dict[str, dict[str, list[Mapping[str, float]]]]] = {}
    samples: list[int] = []
    knees: dict[str, list[int]] = {}
    for part, _, name in plan.rounds():
        for arm in part.arms:
            for function, track in played[name][arm].items():
                by_arm = scores.setdefault(part.load.label, {})
                by_arm.setdefault(arm, {}).setdefault(function, []).append(sum(track["score"]))
                totals.setdefault(part.load.label, {}).setdefault(arm, {}).setdefault(function, []).append(
                    _totals(track)
                )
                if arm == OURS:
                    samples += track["samples"]
                    if part.load.name == STATIONARY.name:  # else the knee moves with the load
                        knees.setdefault(function, []).extend(track["knees"])
    performance = {
        load: {
            arm: {f: round(statistics.median(v), 3) for f, v in functions.items()}
            for arm, functions in arms.items()
        }
        for load, arms in scores.items()
    }
    return {
        "gain_over": {load: gains(arms) for load, arms in performance.items()},
        "ratio_over": {load: ratios(arms) for load, arms in scores.items()},
        "front": {load: front(arms) for load, arms in totals.items()},
        "samples_mean": round(statistics.mean(samples), 2) if samples else None,
        "samples_max": max(samples, default=None),
        "knees_found": knees,
        "time_factor": plan.time_factor,
        "performance": performance,
        "played": {name: {arm: played[name][arm] for arm in part.arms} for part, _, name in plan.rounds()},
    }


def ratios(scores: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, dict[str, float]]:
    """ours / arm over rounds and functions. Functions that an arm never served are left out."""
    ours, found = scores.get(OURS, {}), {}
    for arm, functions in scores.items():
        served = [f for f, values in functions.items() if f in ours and min((*values, *ours[f])) > 0]
        if arm != OURS and served:
            pairs = [zip(ours[f], functions[f], strict=True) for f in served]
            by_function = [[mine / theirs for mine, theirs in pair] for pair in pairs]
            found[arm] = rounded(geometric_mean(list(zip(*by_function, strict=True))))
    return found


def _totals(track: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """What one function cost and got: replica-intervals, requests, their mean latency."""
    served = [
        (throughput, latency)
        for throughput, latency in zip(track["throughput_per_s"], track["latency_s"], strict=True)
        if latency
    ]
    requests = sum(throughput for throughput, _ in served)
    seconds = sum(throughput * latency for throughput, latency in served)
    replicas = sum(track["replicas"])
    score = sum(track["score"])
    return {
        "replicas": replicas, "requests": requests, "latency": seconds / requests if requests else 0.0,
        "score_per_replica": score / replicas if replicas else 0.0,
    }  # fmt: skip


def front(totals: Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]) -> dict[str, dict[str, Any]]:
    """Each arm / ours in cost, latency and requests. `better_in_both`: it costs less, is quicker, and serves
    no fewer requests."""
    found: dict[str, dict[str, Any]] = {}
    for arm, functions in totals.items():
        ratio: dict[str, Any] = {}
        for key in ("replicas", "latency", "requests", "score_per_replica"):
            pairs = [
                [(theirs[key], mine[key]) for theirs, mine in zip(functions[f], totals[OURS][f], strict=True)]
                for f in functions
                if f in totals.get(OURS, {})
            ]
            rounds = [
                [a / b for a, b in of_round if a > 0 and b > 0] for of_round in zip(*pairs, strict=True)
            ]
            if arm != OURS and any(rounds):
                ratio[key] = rounded(geometric_mean(rounds))
        if len(ratio) == 4:
            low = all(ratio[key]["geomean"] < 1 for key in ("replicas", "latency"))
            found[arm] = ratio | {"better_in_both": low and ratio["requests"]["geomean"] >= 1}
    return found


def front_points(played: Played, plan: Plan, load: str) -> dict[str, list[tuple[float, float]]]:
    """Arm -> (replicas a request, latency) at each budget of this load, as multiples of ours at the first.

    Of a request: an arm whose budget is gone before the end of the load is not cheaper by what it refused.
    """
    parts = [part for part in plan.parts if part.load.name == load]
    found: dict[str, list[tuple[float, float]]] = {}
    for part in parts:
        for arm in part.arms:
            logs = []
            for seed in plan.seeds[: part.rounds]:
                first = played[plan.round_name(parts[0].load, seed)][OURS]
                for function, track in played[plan.round_name(part.load, seed)][arm].items():
                    one, other = _totals(track), _totals(first[function])
                    if one["latency"] and other["latency"]:
                        cost, latency, served = (one[key] / other[key] for key in _FRONT)
                        logs.append((math.log(cost / served), math.log(latency)))
            if logs:
                cost, latency = (math.exp(statistics.mean(values)) for values in zip(*logs, strict=True))
                found.setdefault(arm, []).append((cost, latency))
    return found


def gains(performance: Performance) -> dict[str, dict[str, Any]]:
    """ours / arm - 1. Functions that an arm never served are left out: there is no ratio."""
    found: dict[str, dict[str, Any]] = {}
    ours = performance.get(OURS, {})
    for arm, functions in performance.items():
        each = {f: round(ours[f] / value - 1, 4) for f, value in functions.items() if f in ours and value > 0}
        if arm == OURS or not each:
            continue
        found[arm] = {
            "best": max(each.values()),
            "mean": round(statistics.mean(each.values()), 4),
            # Unlike the mean, it is not dominated by a function that a baseline does not scale at all.
            "median": round(statistics.median(each.values()), 4),
            "by_function": each,
        }
    return found
