"""Writes the state of decisions into the status of a policy, and reads it back for the next leader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from math import isfinite
from typing import Any

import msgspec

from hpa_replacement.decision.model import Sample, Scaling, State
from hpa_replacement.search.state import Point, SearchState
from surgekit.decision import Decision
from surgekit.kube.conditions import stamp, unix_s

__all__ = ["read_state", "status_of"]

Json = dict[str, Any]
# Fields of State with a place of their own in the status; the others are under `scaling`.
_SEPARATE = frozenset({"known", "evidence", "search", "spending", "idle_since_s"})
_POINT = tuple(f.name for f in fields(Point))
_SCALING = tuple(f.name for f in fields(State) if f.name not in _SEPARATE)


def status_of(decision: Decision[Scaling], sample: Sample | None, replicas: int | None, now_s: float) -> Json:
    """The `status` of a merge patch: None removes a key."""
    state = decision.action.state
    status: Json = {
        "replicas": replicas,
        "targetReplicas": state.asked,
        "decidedAt": stamp(now_s),
        "idleSince": None if state.idle_since_s is None else stamp(state.idle_since_s),
        "knownKnees": [
            {
                "throughputPerSecond": k.throughput_per_s,
                "concurrency": k.concurrency,
                "replicas": k.replicas,
                "confirmed": k.confirmed,
                "inferred": k.inferred,
            }
            for k in state.known
        ],
        "search": state.search.as_plain() if state.search else None,
        "budget": (
            {"windowStart": state.spending.window_start_s, "spent": state.spending.spent}
            if state.spending
            else None
        ),
        "scaling": {name: getattr(state, name) for name in _SCALING}
        | {"evidence": [[p.replicas, p.score, p.throughput_per_s, p.concurrency] for p in state.evidence]},
        "lastDecision": {
            "reason": decision.reasons[0] if decision.reasons else "",
            "reasons": list(decision.reasons),
            "at": stamp(now_s),
            # Infinite before a watch's first list. No sample: None removes the age of an earlier one.
            "inputsAgeSeconds": {"sample": None}
            | {name: round(age_s, 1) for name, age_s in decision.inputs_age_s.items() if isfinite(age_s)},
        },
    }
    if sample:
        status["lastSample"] = {
            "at": stamp(sample.window_end_s),
            "replicas": sample.replicas,
            "readyReplicas": sample.ready_replicas,
            "throughputPerSecond": round(sample.throughput_per_s, 4),
            "errorsPerSecond": round(sample.errors_per_s, 4),
            "latencySeconds": sample.latency_s and round(sample.latency_s, 6),
            "cpuUtilisation": sample.cpu_utilisation and round(sample.cpu_utilisation, 4),
            "capacity": sample.capacity,
        }
    return status


def read_state(status: Mapping[str, Any]) -> State:
    """Raises ValueError if it cannot be read: another program wrote it."""
    try:
        scaling = status.get("scaling") or {}
        budget, search = status.get("budget"), status.get("search")
        plain = {name: scaling[name] for name in _SCALING if scaling.get(name) is not None}
        if budget:
            plain["spending"] = {"window_start_s": budget["windowStart"], "spent": budget["spent"]}
        plain["known"] = [
            {"throughput_per_s" if key == "throughputPerSecond" else key: value for key, value in k.items()}
            for k in status.get("knownKnees") or ()
        ]
        plain["evidence"] = [dict(zip(_POINT, p, strict=True)) for p in scaling.get("evidence") or ()]
        plain["idle_since_s"] = unix_s(status.get("idleSince"))
        # Check every type here, so that an error shows here and not in a decision.
        state = msgspec.convert(plain, State)
        if any(k.replicas < 1 for k in state.known) or min(state.asked or 0, state.searched_from) < 0:
            raise ValueError("replicas below 0")
        return replace(state, search=SearchState.from_plain(search)) if search else state
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"status cannot be read: {error}") from error
