"""The status of a BurstFunction: both tracks, the filter's history, and conditions. Pure, and bounded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from burst_plane.conditions import Readiness
from burst_plane.knative.route import Route
from burst_plane.traffic import View
from surgekit.kube.conditions import Condition, stamp
from surgekit.kube.conditions import conditions as in_api_form
from surgekit.process.modes import Mode

__all__ = ["Facts", "Regular", "history_before", "invalid_status", "status_of"]

Json = dict[str, Any]
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class Regular:
    """Regular instances, and what was decided about them last."""

    ready: int
    wanted: int
    reason: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What a status tells."""

    generation: int
    mode: Mode
    view: View
    saved: Sequence[tuple[float, int]]  # the filter's history
    regular: Regular
    readiness: Readiness
    revision: Route | None = None  # whose pods the balancer takes


def status_of(before: Json, said: Sequence[Condition], facts: Facts, now_s: float) -> Json:
    """The `status` of a merge patch: None removes a key."""
    view, regular, readiness = facts.view, facts.regular, facts.readiness
    return {
        "observedGeneration": facts.generation,
        "mode": str(facts.mode),
        "requestsPerSecond": _decimal(view.arrivals_per_s),
        "regular": {
            "ready": regular.ready,
            "wanted": regular.wanted,
            "inFlight": _decimal(view.in_regular),
            "queued": _decimal(view.queued),
            "reason": regular.reason[:_LONGEST],
            "revision": facts.revision.revision if facts.revision else None,
            "concurrency": facts.revision.concurrency if facts.revision else None,
        },
        "emergency": {
            "inFlight": _decimal(view.in_emergency),
            "counted": _decimal(view.counted),
            "startsPerSecond": _decimal(view.starts_per_s),
            "share": f"{view.share:.4f}",
            "started": view.totals.started,
            "refused": view.totals.refused,
            "failed": view.totals.failed,
            # Each start served a request that would have waited for a regular instance.
            "coldStartsAvoided": max(view.totals.started - view.totals.failed, 0),
            "preparedNodes": readiness.prepared_nodes,
            "prepared": readiness.instances,
            "hitShare": f"{view.totals.hits / view.totals.started:.4f}" if view.totals.started else None,
        },
        "interArrivals": {
            "percentile": None if view.percentile_s is None else _decimal(view.percentile_s),
            "counts": view.counts,
            "savedTime": stamp(now_s),
            "seconds": [iat_s for iat_s, _ in facts.saved],
            "number": [number for _, number in facts.saved],
        },
        "observedTime": stamp(now_s),
        "conditions": _conditions(before, said, facts.generation, now_s),
    }


def invalid_status(before: Json, said: Sequence[Condition], generation: int, now_s: float) -> Json:
    return {"conditions": _conditions(before, said, generation, now_s)}


def history_before(status: Json) -> tuple[list[tuple[float, int]], float]:
    """The history that the controller before saved, and when (wall time); nonsense counts as none."""
    of = status.get("interArrivals")
    if not isinstance(of, dict):
        return [], 0.0
    seconds, number = of.get("seconds"), of.get("number")
    try:
        saved_s = datetime.fromisoformat(str(of.get("savedTime"))).timestamp()
    except (ValueError, OverflowError):
        return [], 0.0
    if not isinstance(seconds, list) or not isinstance(number, list) or len(seconds) != len(number):
        return [], 0.0
    pairs = zip(seconds, number, strict=True)
    return [(float(s), n) for s, n in pairs if _is_number(s) and isinstance(n, int)], saved_s


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9


def _conditions(before: Json, said: Sequence[Condition], generation: int, now_s: float) -> list[Json]:
    short = [Condition(c.type, c.holds, c.reason, c.message[:1000]) for c in said]
    return in_api_form(before, short, generation, now_s)


def _decimal(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) and value < 1000 else f"{value:.0f}"
