"""The figures of finished runs. Pure.

Ratios are baseline / ours for latency and slack, ours / baseline for throughput: above 1, ours is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.escra.arms import BASELINES, OURS, Peaks
from experiments.escra.plan import Plan, Run
from experiments.intervals import geometric_mean, rounded

__all__ = ["figures", "reaction_figures"]

Json = dict[str, Any]
Found = Mapping[str, Mapping[str, Any]]  # of a run's key
# Of a request, slack or throughput: below these, a ratio says nothing (a cgroup's page, a tick of quota).
_LEAST = {"ms": 0.1, "cores": 0.001, "mib": 0.1, "per_s": 0.01}


def figures(found: Found, plan: Plan, peaks: Mapping[tuple[str, str], Peaks]) -> Json:
    runs = list(plan.runs())
    main = [run for run in runs if not run.parameter]
    pairs = {b: o for b, o in BASELINES.items() if {b, o} <= {run.arm.name for run in main}}

    def ratios(value: Callable[[Any], float | None], least: float, ours_over: bool = False) -> Json:
        return {
            baseline: ratio
            for baseline, ours in pairs.items()
            if (ratio := _ratio(found, main, (baseline, ours), value, least, ours_over))
        }

    return {
        "seeds": list(plan.seeds),
        "loads": list(plan.loads),
        "measured_s": plan.measured_s,
        "profile_window_s": plan.profile_window_s,
        "compared_with": pairs,
        "latency_ratio": ratios(lambda run: run["answers"]["p999_ms"], _LEAST["ms"]),
        "throughput_ratio": ratios(
            lambda run: run["answers"]["throughput_per_s"], _LEAST["per_s"], ours_over=True
        ),
        "cpu_slack_ratio": _by_percentile(ratios, "cpu_slack_cores", _LEAST["cores"]),
        "memory_slack_ratio": _by_percentile(ratios, "memory_slack_mib", _LEAST["mib"]),
        "oom_kills": _count(found, main, "oom_kills"),
        # Without those of applications that used all memory they might have together.
        "oom_kills_with_memory_left": _count(found, main, "oom_kills_with_memory_left"),
        "restarts": _count(found, main, "restarts"),  # of processes, whatever ended them
        "arms": _arms(found, main),
        "reaction_ms_of_applications": _reactions(found, main),
        "over_the_limit": _over_the_limit(found, main, peaks),
        "peaks": {f"{a}/{load}": dict(of) for (a, load), of in peaks.items()},
        "sweep": _sweep(found, runs),
        "played": {key: {k: v for k, v in of.items() if k != "reactions_ms"} for key, of in found.items()},
    }


def reaction_figures(took_ms: Sequence[float], unanswered: int, containers: int) -> Json:
    """From a throttled period's end to the higher quota."""
    if not took_ms:
        return {"containers": containers, "episodes": 0, "unanswered": unanswered}
    return {
        "containers": containers,
        "episodes": len(took_ms),
        "unanswered": unanswered,
        "p50": round(float(np.percentile(took_ms, 50)), 1),
        "p99": round(float(np.percentile(took_ms, 99)), 1),
    }


def _by_percentile(ratios: Callable[..., Json], of: str, least: float) -> Json:
    """Baseline -> percentile -> ratio."""

    def at(percentile: str) -> Json:
        return ratios(lambda run: None if run[of] is None else float(run[of][percentile]), least)

    p50, p99 = at("p50"), at("p99")
    return {baseline: {"p50": p50[baseline], "p99": p99[baseline]} for baseline in p50 if baseline in p99}


def _ratio(
    found: Found,
    runs: Sequence[Run],
    pair: tuple[str, str],
    value: Callable[[Any], float | None],
    least: float,
    ours_over: bool,
) -> Json | None:
    """The best load's ratio, and the geometric mean over applications and loads with its interval."""
    by_seed: dict[int, dict[str, float]] = {}
    for run in runs:
        if run.arm.name != pair[0]:
            continue
        ours = Run(run.application, run.load, run.seed, _named(runs, pair[1]))
        baseline_value, ours_value = (value(found[key]) for key in (run.key, ours.key))
        if baseline_value is None or ours_value is None:
            return None
        ratio = max(baseline_value, least) / max(ours_value, least)
        place = f"{run.application}/{run.load}"
        by_seed.setdefault(run.seed, {})[place] = 1 / ratio if ours_over else ratio
    overall = geometric_mean([list(of.values()) for of in by_seed.values()])
    by_load = {
        place: round(math.exp(np.mean([math.log(of[place]) for of in by_seed.values()])), 4)
        for place in next(iter(by_seed.values()))
    }
    mean = {("mean" if key == "geomean" else key): v for key, v in rounded(overall).items()}
    return {"best": max(by_load.values()), "worst": min(by_load.values())} | mean | {"by_load": by_load}


def _named(runs: Sequence[Run], arm: str) -> Any:
    return next(run.arm for run in runs if run.arm.name == arm)


def _count(found: Found, runs: Sequence[Run], what: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for run in runs:
        counts[run.arm.name] = counts.get(run.arm.name, 0) + found[run.key][what]
    return {"ours": sum(counts.get(arm, 0) for arm in OURS)} | counts


def _arms(found: Found, runs: Sequence[Run]) -> Json:
    """Each arm's own figures: medians over applications, loads and seeds, so that no ratio stands alone."""
    arms: Json = {}
    for name in dict.fromkeys(run.arm.name for run in runs):
        mine = [found[run.key] for run in runs if run.arm.name == name]
        slack = {
            f"{of}_{percentile}": _median([m[of][percentile] for m in mine if m[of]])
            for of in ("cpu_slack_cores", "memory_slack_mib")
            for percentile in ("p50", "p99")
        }
        arms[name] = {
            "p50_ms": _median([m["answers"]["p50_ms"] for m in mine]),
            "p999_ms": _median([m["answers"]["p999_ms"] for m in mine]),
            "answered": sum(m["answers"]["requests"] - m["answers"]["failed"] for m in mine)
            / max(sum(m["answers"]["requests"] for m in mine), 1),
            "not_ready": sum(not m["ready"] for m in mine),
            "throttled_share": _median([m["throttled_share"] for m in mine]),
            "mean_limit_cores": _median([m["mean_limit_cores"] for m in mine]),
            "mean_used_cores": _median([m["mean_used_cores"] for m in mine]),
        } | slack
    return arms


def _reactions(found: Found, runs: Sequence[Run]) -> Json:
    mine = [found[run.key] for run in runs if run.arm.name in OURS]
    took = [ms for of in mine for ms in of["reactions_ms"]]
    return reaction_figures(took, sum(of["reactions_unanswered"] for of in mine), 0)


def _over_the_limit(found: Found, runs: Sequence[Run], peaks: Mapping[tuple[str, str], Peaks]) -> Json:
    """Of ours: the highest share of the global CPU limit that was written at once (means over 100 ms)."""
    shares: Json = {}
    for run in runs:
        if run.arm.ours:
            limit = run.arm.factor * sum(p["cores"] for p in peaks[run.application, run.load].values())
            share = round(found[run.key]["most_limit_cores"] / limit, 4)
            shares[run.arm.name] = max(share, shares.get(run.arm.name, 0.0))
    return shares


def _sweep(found: Found, runs: Sequence[Run]) -> Json:
    """Arm and parameter -> load -> figures."""
    swept: Json = {}
    for run in runs:
        if run.parameter:
            of = found[run.key]
            swept.setdefault(f"{run.arm.name} {run.parameter}", {})[run.load] = {
                "p999_ms": round(of["answers"]["p999_ms"], 2),
                "throughput_per_s": round(of["answers"]["throughput_per_s"], 2),
                "cpu_slack_cores_p50": of["cpu_slack_cores"] and round(of["cpu_slack_cores"]["p50"], 4),
                "memory_slack_mib_p50": of["memory_slack_mib"] and round(of["memory_slack_mib"]["p50"], 2),
                "oom_kills": of["oom_kills"],
            }
    return swept


def _median(values: Sequence[float]) -> float | None:
    return round(float(np.median(values)), 4) if values else None
