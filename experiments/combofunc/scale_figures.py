"""Figures of a scale test, and what was not carried out or was left over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.arrivals import is_ready
from experiments.combofunc.scale_record import Change, settled
from experiments.process_usage import Usage

__all__ = ["Found", "figures", "not_as_planned"]

Json = dict[str, Any]
# Each watch has a connection that comes and goes, and Python's heap varies. A leak of one pod's or plan's
# objects in each of 1,000 changes would be more.
_FILES_MORE, _MEMORY_MORE = 4, 1.25


@dataclass(frozen=True)
class Found:
    changes: Sequence[Change]
    functions: Sequence[Json]  # at the end
    pods: Sequence[Json]  # at the end
    left: int  # pods when all functions had been deleted
    begin: Usage  # the controller's, before the first change
    end: Usage


def figures(found: Found) -> dict[str, Any]:
    changes, begin, end = found.changes, found.begin, found.end
    late = [c for c in changes if c.settled_s is None and not c.overtaken]
    leaks = _leaks(found)
    failures = [f"not carried out: {c.function} to {c.target}" for c in late]
    failures += not_as_planned(found.functions, found.pods) + leaks
    planned, serving, lags = (
        [at_s - c.at_s for c, at_s in ((c, getattr(c, when)) for c in changes) if at_s is not None]
        for when in ("planned_s", "serving_s", "settled_s")
    )
    placed = Counter(_mark(p, "planned-node") == p["spec"].get("nodeName") for p in found.pods)
    return {
        "pods": len(found.pods),
        "changes": len(changes),
        "carried_out": sum(c.settled_s is not None for c in changes),
        "overtaken": sum(c.overtaken for c in changes),
        **_percentiles("planned_lag", planned),
        **_percentiles("serving_lag", serving),
        **_percentiles("lag", lags),
        "on_planned_node": round(placed[True] / placed.total(), 4) if placed else None,
        "memory_mb_begin": begin.memory_mb,
        "memory_mb_end": end.memory_mb,
        "threads_begin": begin.threads,
        "threads_end": end.threads,
        "files_begin": begin.files,
        "files_end": end.files,
        "controller_cpu_s": round(end.cpu_s - begin.cpu_s, 2),
        "controller_cpu_first_s": begin.cpu_s,
        "leaked": len(leaks),
        "failures": failures,
    }


def not_as_planned(functions: Sequence[Json], pods: Sequence[Json]) -> list[str]:
    """Differences between the pods and the plan, whatever the status says."""
    serving: Counter[str] = Counter()
    for p in pods:
        labels = p["metadata"]["labels"]
        if is_ready(p) and "deletionTimestamp" not in p["metadata"] and "surgekit.dev/serving" in labels:
            serving[labels["surgekit.dev/combofunc"]] += int(_mark(p, "concurrency") or 0)
    return [
        f"not as planned: {name} has a concurrency of {serving[name]}, status {f.get('status')}"
        for f in functions
        for name in (f["metadata"]["name"],)
        if not settled(f) or serving[name] != f["status"]["plannedConcurrency"]
    ]


def _leaks(found: Found) -> list[str]:
    begin, end, uids = found.begin, found.end, {f["metadata"]["uid"] for f in found.functions}
    owners = [{o["uid"] for o in p["metadata"].get("ownerReferences") or ()} for p in found.pods]
    gated = sum(bool(p["spec"].get("schedulingGates")) for p in found.pods)
    alone = sum(uids.isdisjoint(of) for of in owners)
    leaks = {
        f"{gated} pods behind a gate": gated > 0,
        f"{alone} pods without an owner": alone > 0,
        f"{found.left} pods of deleted functions": found.left > 0,
        f"threads: {begin.threads}, then {end.threads}": end.threads > begin.threads,
        f"open files: {begin.files}, then {end.files}": end.files > begin.files + _FILES_MORE,
        f"memory: {begin.memory_mb} MB, then {end.memory_mb}": end.memory_mb > begin.memory_mb * _MEMORY_MORE,
    }
    return [words for words, leaked in leaks.items() if leaked]


def _percentiles(name: str, seconds: Sequence[float]) -> dict[str, float | None]:
    """None if nothing was measured."""
    cuts = np.percentile(seconds, (50, 95, 100)) if seconds else (None, None, None)
    ends = ("p50_s", "p95_s", "max_s")
    return {
        f"{name}_{end}": None if cut is None else round(float(cut), 3)
        for end, cut in zip(ends, cuts, strict=True)
    }


def _mark(obj: Json, name: str) -> str | None:
    return (obj["metadata"].get("annotations") or {}).get(f"surgekit.dev/{name}")
