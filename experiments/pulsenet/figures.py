"""What runs say, and how systems compare. Pure.

Slowdown of a request: its response time over its run time. A system's: the geometric mean over functions of
the 99th percentile of their requests' slowdowns (paper, section 5). Cost: the memory of all instances over
time, over that of instances that run a request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.intervals import rounded
from experiments.pulsenet.model import CREATED_BYTES, Creation, Floats, Outcome, Starts, Track

__all__ = ["CDF", "Summary", "compared", "cost_ratio", "slowdown_ratio", "summary", "table"]

Json = dict[str, Any]
CDF = tuple(range(0, 101, 5))  # percentiles kept of delays
_RESAMPLES = 2000
_BOUNDS = (0.025, 0.975)


@dataclass(frozen=True, eq=False)
class Summary:
    """One run. Lists have one entry a function; NaN where it had no request."""

    p99_slowdown: Floats
    held_byte_s: Floats
    busy_byte_s: Floats
    figures: Json

    def as_json(self) -> Json:
        return {
            "p99_slowdown": [None if np.isnan(x) else round(float(x), 4) for x in self.p99_slowdown],
            "held_gib_s": (self.held_byte_s / 2**30).round(3).tolist(),
            "busy_gib_s": (self.busy_byte_s / 2**30).round(4).tolist(),
            "figures": self.figures,
        }

    @classmethod
    def of_json(cls, stored: Json) -> Summary:
        return cls(
            np.array([np.nan if x is None else x for x in stored["p99_slowdown"]], float),
            np.array(stored["held_gib_s"]) * 2**30,
            np.array(stored["busy_gib_s"]) * 2**30,
            stored["figures"],
        )

    @property
    def slowdown(self) -> float:
        return float(np.exp(np.nanmean(np.log(self.p99_slowdown))))

    @property
    def cost(self) -> float:
        return float(self.held_byte_s.sum() / self.busy_byte_s.sum())


def summary(outcome: Outcome, creation: Creation, starts: Starts, predict_cpu_s: float = 0.0) -> Summary:
    functions = len(outcome.memory_bytes)
    slowdowns = 1.0 + outcome.delay_s / outcome.duration_s
    p99, mean_delay = np.full(functions, np.nan), np.full(functions, np.nan)
    order = np.argsort(outcome.function, kind="stable")
    bounds = np.searchsorted(outcome.function[order], np.arange(functions + 1))
    for index in range(functions):
        own = order[bounds[index] : bounds[index + 1]]
        if len(own):
            p99[index] = np.percentile(slowdowns[own], 99)
            mean_delay[index] = outcome.delay_s[own].mean()
    held = outcome.held_s * outcome.memory_bytes
    busy = outcome.busy_s * outcome.memory_bytes
    # Containers that wait are shared out by what functions hold, so that the sum is the cluster's.
    held = held * (1.0 + outcome.prepared_byte_s / held.sum())
    cpu_s = float(outcome.duration_s.sum())
    emergency, memory = outcome.track == Track.EMERGENCY, outcome.memory_bytes[outcome.function]
    made = sum(outcome.starts.values())
    overhead_s = (
        outcome.creations * creation.cpu_s + made * starts.cpu_s + outcome.predictions * predict_cpu_s
    )
    rate = np.array(outcome.creations_by_second)
    return Summary(p99, held, busy, {
        "requests": len(outcome.function),
        "regular_share": round(float(1.0 - emergency.mean()), 5),
        "waited_share": round(float((outcome.track == Track.WAITED).mean()), 5),
        "emergency_cpu_share": round(float(outcome.duration_s[emergency].sum() / cpu_s), 5),
        "emergency_memory_share": round(
            float((outcome.duration_s * memory)[emergency].sum() / busy.sum()), 5
        ),
        "creations": outcome.creations,
        "creation_s": _percentiles(outcome.creation_s),
        "creations_per_s": {"p50": float(np.percentile(rate, 50)), "p99": float(np.percentile(rate, 99)),
                            "mean": round(float(rate.mean()), 4), "most": int(rate.max(initial=0))},
        "starts": outcome.starts,
        "refused": outcome.refused,
        "prepared_share_of_cost": round(float(outcome.prepared_byte_s / max(held.sum(), 1.0)), 4),
        "mean_containers_ready": round(outcome.prepared_byte_s / CREATED_BYTES / outcome.measured_s, 2),
        "overhead_cpu_share": round(overhead_s / (overhead_s + cpu_s), 4),
        "delay_ms": [round(float(x) * 1000, 2) for x in np.percentile(outcome.delay_s, CDF)],
        "mean_delay_by_function_ms": [round(float(x) * 1000, 2) for x in np.nanpercentile(mean_delay, CDF)],
        "finished": outcome.finished,
    })  # fmt: skip


def compared(runs: Mapping[str, Sequence[Summary]], ours: str) -> Json:
    """Baseline / ours, above 1 where ours is better; runs of one seed lie at one index."""
    others = [name for name in runs if name != ours]
    own = runs[ours]
    return {
        "slowdown_ratio": {name: rounded(slowdown_ratio(runs[name], own)) for name in others},
        "cost_ratio": {name: rounded(cost_ratio(runs[name], own)) for name in others},
        "creations_ratio": {
            name: round(_mean(runs[name], "creations") / max(_mean(own, "creations"), 1e-9), 4)
            for name in others
        },
        "regular_share": round(_mean(own, "regular_share"), 5),
        "emergency_cpu_share": round(_mean(own, "emergency_cpu_share"), 5),
        "systems": {name: table(of) for name, of in runs.items()},
    }


def table(runs: Sequence[Summary]) -> Json:
    """One system, in the mean of its runs."""
    keys = (
        "regular_share", "waited_share", "emergency_cpu_share", "emergency_memory_share", "creations",
        "prepared_share_of_cost", "mean_containers_ready", "overhead_cpu_share",
    )  # fmt: skip
    lists = ("delay_ms", "mean_delay_by_function_ms")
    return {
        "slowdown": round(float(np.exp(np.mean([np.log(run.slowdown) for run in runs]))), 4),
        "cost": round(float(np.mean([run.cost for run in runs])), 4),
        **{key: round(_mean(runs, key), 5) for key in keys},
        **{key: np.mean([run.figures[key] for run in runs], axis=0).round(2).tolist() for key in lists},
        "creation_s": {
            key: round(float(np.mean([run.figures["creation_s"].get(key, np.nan) for run in runs])), 4)
            for key in ("p50", "p99")
        } if all(run.figures["creation_s"] for run in runs) else {},
        "creations_per_s": {
            key: round(float(np.mean([run.figures["creations_per_s"][key] for run in runs])), 4)
            for key in ("p50", "p99", "mean", "most")
        },
        "starts": _sums(runs, "starts"),
        "refused": _sums(runs, "refused"),
        "unfinished_runs": sum(not run.figures["finished"] for run in runs),
    }  # fmt: skip


def slowdown_ratio(others: Sequence[Summary], own: Sequence[Summary]) -> dict[str, float]:
    """Drawn again over seeds, and over the functions of each."""
    logs = np.array(
        [np.log(a.p99_slowdown) - np.log(b.p99_slowdown) for a, b in zip(others, own, strict=True)]
    )
    rng, found = np.random.default_rng(2026), []
    for _ in range(_RESAMPLES):
        rows = rng.integers(0, len(logs), len(logs))
        columns = rng.integers(0, logs.shape[1], logs.shape[1])
        found.append(_mean_of_rows(logs[rows][:, columns]))
    low, high = np.exp(np.nanquantile(found, _BOUNDS))
    return {"geomean": float(np.exp(_mean_of_rows(logs))), "low": float(low), "high": float(high)}


def cost_ratio(others: Sequence[Summary], own: Sequence[Summary]) -> dict[str, float]:
    """The same. Of some functions' memory, as of all functions', the ratio of sums."""
    held = np.array([[a.held_byte_s, b.held_byte_s] for a, b in zip(others, own, strict=True)])
    busy = np.array([[a.busy_byte_s, b.busy_byte_s] for a, b in zip(others, own, strict=True)])
    rng, found = np.random.default_rng(2026), []
    for _ in range(_RESAMPLES):
        rows = rng.integers(0, len(held), len(held))
        columns = rng.integers(0, held.shape[2], held.shape[2])
        found.append(_log_ratio(held[rows][:, :, columns], busy[rows][:, :, columns]))
    low, high = np.exp(np.quantile(found, _BOUNDS))
    return {"geomean": float(np.exp(_log_ratio(held, busy))), "low": float(low), "high": float(high)}


def _log_ratio(held: Floats, busy: Floats) -> float:
    costs = held.sum(axis=2) / np.maximum(busy.sum(axis=2), 1e-9)
    return float(np.mean(np.log(costs[:, 0]) - np.log(costs[:, 1])))


def _mean_of_rows(logs: Floats) -> float:
    """Of each seed the mean over its functions that were called, and of these the mean."""
    known = ~np.isnan(logs)
    return float((np.where(known, logs, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)).mean())


def _mean(runs: Sequence[Summary], key: str) -> float:
    return float(np.mean([run.figures[key] for run in runs]))


def _sums(runs: Sequence[Summary], key: str) -> dict[str, int]:
    names = dict.fromkeys(name for run in runs for name in run.figures[key])
    return {name: sum(run.figures[key].get(name, 0) for run in runs) for name in names}


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    return {name: round(float(np.percentile(values, q)), 4) for name, q in (("p50", 50), ("p99", 99))}
