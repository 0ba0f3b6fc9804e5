"""Figures of arms and their ratios. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.intervals import rounded
from experiments.pulsenet.figures import Summary, cost_ratio, slowdown_ratio
from experiments.pulsenet.live.observer import Seen
from experiments.pulsenet.live.processes import EMULATION, FUNCTIONS
from experiments.pulsenet.live.workload import Workload
from experiments.pulsenet.model import CREATED_BYTES, Floats, Integers

__all__ = ["MACHINE", "Answers", "figures_of", "ratios", "tail_slowdown"]

Json = dict[str, Any]
MACHINE = (10, 25, 50, 75, 90, 95, 98, 99, 99.5, 100)  # percentiles kept of the probe


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
    busy_by = np.bincount(requests.function, ran_s, len(names)) * workload.memory_bytes
    busy = float(busy_by.sum())
    by = {
        kind: np.array([seconds.get(name, 0.0) for name in names]) * workload.memory_bytes
        for kind, seconds in (
            ("regular", seen.regular_s), ("emergency", seen.emergency_s), ("frozen", seen.frozen_s)
        )
    }  # fmt: skip
    held = {kind: float(amounts.sum()) for kind, amounts in by.items()}
    held["created"] = seen.created_s * CREATED_BYTES
    # Containers that wait are shared out by what functions hold, so that the sum is the node's.
    held_by = np.sum(list(by.values()), axis=0) * (
        1.0 + held["created"] / max(sum(held.values()) - held["created"], 1.0)
    )
    arrivals, overflowed = (sum(of.get(name, 0) for name in names) for of in (seen.arrivals, seen.overflowed))
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
        "p99_slowdown": [None if tail is None else round(tail, 4) for tail in tails],
        "held_gib_s": (held_by / 2**30).round(4).tolist(),
        "busy_gib_s": (busy_by / 2**30).round(5).tolist(),
        "delay_ms": {str(p): round(1000 * float(np.percentile(delay_s, p)), 2) for p in (50, 90, 99, 99.9)},
        "generator_late_ms": round(1000 * float(np.abs(answers.skew_s[good]).max(initial=0.0)), 2),
        "cost": round(sum(held.values()) / busy, 4) if busy else None,
        "held_share": {kind: round(amount / busy, 4) for kind, amount in held.items()} if busy else {},
        "overflowed": [int(seen.overflowed.get(name, 0)) for name in names],
        "regular_share": round(1.0 - overflowed / arrivals, 5) if arrivals else None,
        "emergency_cpu_share": round(emergency_s / busy_s, 5) if busy_s else None,
        "busy_cores": round(busy_s / measured_s, 3),
        "creations": seen.creations,
        "creation_s": {f"p{p}": round(float(np.percentile(seen.creation_s, p)), 3) for p in (50, 99)}
        if seen.creation_s
        else {},
        "cpu_cores": {kind: round(seconds / measured_s, 4) for kind, seconds in sorted(seen.cpu_s.items())},
        "plane_cpu_cores": round(plane_s / measured_s, 4),
    }


def ratios(runs: Mapping[str, Sequence[Json]], ours: str) -> Json:
    """Of runs by arm, seeds in the same order: baseline / ours, above 1 where ours is better."""
    own = runs.get(ours, ())
    found: Json = {"slowdown_ratio": {}, "cost_ratio": {}, "creations_ratio": {}}
    for name, others in runs.items():
        if name == ours or not own or len(others) != len(own):
            continue
        found["slowdown_ratio"][name] = rounded(slowdown_ratio(_summaries(others), _summaries(own)))
        found["cost_ratio"][name] = rounded(cost_ratio(_summaries(others), _summaries(own)))
        created = sum(run["creations"] for run in others), sum(run["creations"] for run in own)
        found["creations_ratio"][name] = round(created[0] / max(created[1], 1e-9), 4)
    if own:
        found["regular_share"] = round(float(np.mean([run["regular_share"] for run in own])), 5)
        found["emergency_cpu_share"] = round(float(np.mean([run["emergency_cpu_share"] for run in own])), 5)
    return found


def _summaries(runs: Sequence[Json]) -> list[Summary]:
    return [Summary.of_json(run | {"figures": {}}) for run in runs]


def _geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if len(values) else float("nan")


def _counted(statuses: Integers) -> dict[str, int]:
    codes, counts = np.unique(statuses, return_counts=True)
    return {str(code): int(count) for code, count in zip(codes, counts, strict=True)}
