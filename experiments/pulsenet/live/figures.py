"""Figures of arms and their ratios. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.pulsenet.live.observer import Seen
from experiments.pulsenet.live.processes import EMULATION, FUNCTIONS
from experiments.pulsenet.live.workload import Workload
from experiments.pulsenet.model import CREATED_BYTES, Floats, Integers

__all__ = ["Answers", "figures_of", "ratios", "tail_slowdown"]

Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Answers:
    """One entry a request, in the workload's order."""

    latency_s: Floats  # from when it was due; NaN: no record
    status: Integers
    skew_s: Floats  # when it was due by the record, less when it was due by the trace


def tail_slowdown(slowdown: Floats, function: Integers, functions: int) -> list[float | None]:
    """p99 of each function; None of one without requests."""
    return [
        float(np.percentile(slowdown[function == index], 99)) if (function == index).any() else None
        for index in range(functions)
    ]


def figures_of(workload: Workload, answers: Answers, seen: Seen, warm_up_s: float, measured_s: float) -> Json:
    requests, names = workload.requests, workload.names()
    end_s = warm_up_s + measured_s
    measured = (requests.at_s >= warm_up_s) & (requests.at_s < end_s)
    good = measured & (answers.status == 200)
    slowdown = answers.latency_s[good] / requests.duration_s[good]
    tails = tail_slowdown(slowdown, requests.function[good], len(names))
    delay_s = answers.latency_s[good] - requests.duration_s[good]
    # A request ran from its duration before its answer. Bytes times seconds, within what was measured.
    ended_s = requests.at_s + np.nan_to_num(answers.latency_s)
    ran_s = np.minimum(ended_s, end_s) - np.maximum(ended_s - requests.duration_s, warm_up_s)
    ran_s = np.where(np.isnan(answers.latency_s), 0.0, np.maximum(ran_s, 0.0))
    busy = float((ran_s * workload.memory_bytes[requests.function]).sum())
    held = {
        "regular": _weighed(seen.regular_s, names, workload.memory_bytes),
        "emergency": _weighed(seen.emergency_s, names, workload.memory_bytes),
        "frozen": _weighed(seen.frozen_s, names, workload.memory_bytes),
        "created": seen.created_s * CREATED_BYTES,
    }
    arrivals, overflowed = sum(seen.arrivals.values()), sum(seen.overflowed.values())
    emergency_s = sum(seen.emergency_s.values())
    busy_s = float(ran_s.sum())
    # All that is not function code; emulation stands for nodes and clients.
    plane_s = sum(seconds for kind, seconds in seen.cpu_s.items() if kind not in (EMULATION, FUNCTIONS))
    known = [tail for tail in tails if tail is not None]
    return {
        "requests": int(measured.sum()),
        "lost": int((measured & (answers.status != 200)).sum()),
        "statuses": _counted(answers.status[measured]),
        "slowdown": round(_geometric_mean(known), 4),
        "tails": [None if tail is None else round(tail, 3) for tail in tails],
        "delay_ms": {str(p): round(1000 * float(np.percentile(delay_s, p)), 2) for p in (50, 90, 99, 99.9)},
        "generator_late_ms": round(1000 * float(np.abs(answers.skew_s[good]).max(initial=0.0)), 2),
        "cost": round(sum(held.values()) / busy, 4) if busy else None,
        "held_share": {kind: round(amount / busy, 4) for kind, amount in held.items()} if busy else {},
        "regular_share": round(1.0 - overflowed / arrivals, 5) if arrivals else None,
        "emergency_busy_share": round(emergency_s / busy_s, 5) if busy_s else None,
        "busy_cores": round(busy_s / measured_s, 3),
        "creations": seen.creations,
        "cpu_cores": {kind: round(seconds / measured_s, 4) for kind, seconds in sorted(seen.cpu_s.items())},
        "plane_cpu_cores": round(plane_s / measured_s, 4),
    }


def ratios(runs: Mapping[str, Sequence[Json]], ours: str, baselines: Sequence[str]) -> Json:
    """Of `runs` by arm, seeds in the same order. Above 1, ours is better."""
    found: Json = {"slowdown_ratio": {}, "cost_ratio": {}, "creations_ratio": {}}
    for baseline in baselines:
        pairs = list(zip(runs.get(baseline, ()), runs.get(ours, ()), strict=False))
        if not pairs:
            continue
        for key, name in (("slowdown", "slowdown_ratio"), ("cost", "cost_ratio")):
            found[name][baseline] = round(_geometric_mean([b[key] / o[key] for b, o in pairs]), 3)
        created = sum(b["creations"] for b, _ in pairs), sum(o["creations"] for _, o in pairs)
        found["creations_ratio"][baseline] = round(created[0] / created[1], 3) if created[1] else None
    if mine := runs.get(ours):
        found["regular_share"] = round(float(np.mean([run["regular_share"] for run in mine])), 5)
        found["emergency_busy_share"] = round(float(np.mean([r["emergency_busy_share"] for r in mine])), 5)
        found["lost"] = sum(run["lost"] for runs_of in runs.values() for run in runs_of)
    return found


def _weighed(seconds: Mapping[str, float], names: Sequence[str], memory_bytes: Floats) -> float:
    return sum(seconds.get(name, 0.0) * float(of) for name, of in zip(names, memory_bytes, strict=True))


def _geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if len(values) else float("nan")


def _counted(statuses: Integers) -> dict[str, int]:
    codes, counts = np.unique(statuses, return_counts=True)
    return {str(code): int(count) for code, count in zip(codes, counts, strict=True)}
