"""The figures of finished serverless runs. Pure. Ratios are baseline / ours: above 1, ours is better."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.escra.serverless.model import PAIRS, ServerlessRun
from experiments.intervals import geometric_mean, rounded

__all__ = ["serverless_figures"]

Json = dict[str, Any]
Found = Mapping[tuple[str, str, int], Mapping[str, Any]]  # of function, arm and seed
_LEAST = 1e-3  # below it a ratio says nothing
_CDF = np.arange(0, 101, 2)


def serverless_figures(played: Sequence[tuple[ServerlessRun, Mapping[str, Any]]]) -> Json:
    found = {(run.function.name, run.arm.name, run.seed): of for run, of in played}
    return {
        "serverless_cpu_ratio": _ratios(found, lambda of: float(of["cpu_limit_vcpu"])),
        "serverless_memory_ratio": _ratios(found, lambda of: float(of["memory_limit_mib"])),
        "serverless_latency_ratio": _ratios(found, lambda of: float(np.mean(of["latencies_s"]))),
        "serverless": {
            function: {
                arm: _arm([of for (f, a, _), of in found.items() if (f, a) == (function, arm)])
                for arm in dict.fromkeys(a for f, a, _ in found if f == function)
            }
            for function in dict.fromkeys(f for f, _, _ in found)
        },
    }


def _ratios(found: Found, value: Callable[[Mapping[str, Any]], float]) -> Json:
    """A seed is a pair of runs of the same requests."""
    ratios: Json = {}
    for name, (function, baseline, ours) in PAIRS.items():
        seeds = [seed for f, arm, seed in found if (f, arm) == (function, baseline)]
        pairs = [
            [max(value(found[function, arm, seed]), _LEAST) for arm in (baseline, ours)] for seed in seeds
        ]
        if pairs:
            interval = rounded(geometric_mean([[theirs / mine] for theirs, mine in pairs]))
            ratios[name] = {"mean": interval.pop("geomean"), **interval}
    return ratios


def _arm(runs: Sequence[Mapping[str, Any]]) -> Json:
    """All seeds together; the course over time is the first one's."""
    latencies_s = [latency_s for of in runs for latency_s in of["latencies_s"]]
    p50, p99 = np.percentile(latencies_s, [50, 99])
    return {
        "latency_s": {
            "mean": round(float(np.mean(latencies_s)), 4),
            "p50": round(float(p50), 4),
            "p99": round(float(p99), 4),
            "cdf": np.round(np.percentile(latencies_s, _CDF), 3).tolist(),
        },
        "finished": len(latencies_s),
        "failed": sum(of["failed"] for of in runs),
        "oom_kills": sum(of["oom_kills"] for of in runs),
        "pods": sum(of["pods"] for of in runs),
        **{
            key: round(float(np.mean([of[key] for of in runs])), 4)
            for key in ("cpu_limit_vcpu", "memory_limit_mib", "memory_used_mib", "at_ceiling_share")
        },
        "timeline": runs[0]["timeline"],
    }
