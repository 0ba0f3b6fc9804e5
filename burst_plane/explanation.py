"""Explains a function's two tracks, from its BurstFunction's status: sentences first, then numbers. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from burst_plane import burst_function
from surgekit.errors import UserError
from surgekit.kube.conditions import status_before

__all__ = ["Explanation", "NothingToExplain", "explain"]

Json = dict[str, Any]


class NothingToExplain(UserError):
    """Nothing is known yet; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Explanation:
    function: str
    mode: str  # in force
    asked_mode: str
    age_s: float  # of the status
    sentences: tuple[str, ...]
    conditions: tuple[tuple[str, str, str, str], ...]  # type, status, reason, message
    requests_per_second: float
    regular: Json
    emergency: Json
    keepalive_s: float
    threshold_percentile: float
    inter_arrival_s: float | None  # at that percentile of the last hour; None: no history
    inter_arrivals: int  # that are known
    counts: bool  # excess traffic counts toward regular scaling


def explain(obj: Json, now_s: float) -> Explanation:
    """Raises SpecError if its spec cannot be read."""
    spec, status = burst_function.read(obj), status_before(obj)
    conditions = tuple(
        (c["type"], str(c.get("status", "")), c["reason"], str(c.get("message", "")))
        for c in status.get("conditions") or ()
    )
    if not status.get("observedTime"):
        said = "; ".join(f"{reason}: {message}" for _, _, reason, message in conditions[:1])
        raise NothingToExplain(
            f"{spec.key}: nothing is known of its traffic ({said or 'it has no condition'}). "
            "Is the controller running (`surgekit serve burst-controller`), and does it hold its Lease?"
        )
    regular, emergency = status.get("regular") or {}, status.get("emergency") or {}
    iats = status.get("interArrivals") or {}
    percentile = iats.get("percentile")
    explanation = Explanation(
        spec.key,
        str(status.get("mode", spec.mode)),
        str(spec.mode),
        max(now_s - datetime.fromisoformat(status["observedTime"]).timestamp(), 0.0),
        (),
        conditions,
        float(status.get("requestsPerSecond") or 0.0),
        regular,
        emergency,
        spec.keepalive_s,
        spec.threshold_percentile,
        None if percentile is None else float(percentile),
        sum(iats.get("number") or ()),
        bool(iats.get("counts")),
    )
    return replace(explanation, sentences=_sentences(explanation))


def _sentences(said: Explanation) -> tuple[str, ...]:
    regular, emergency = said.regular, said.emergency
    holds = {type_: (status, reason, message) for type_, status, reason, message in said.conditions}
    _, reason, message = holds.get("Overflow", ("", "", ""))
    return (
        _overflow(reason, message),
        f"{regular.get('inFlight', '?')} requests are in {regular.get('ready', '?')} regular instances, "
        f"{regular.get('queued', '?')} wait for one, "
        f"{emergency.get('inFlight', '?')} are in emergency instances.",
        _counting(said),
        f"{regular.get('wanted', '?')} regular instances are wanted: {regular.get('reason', '')}.",
        _pool(emergency, holds),
    )


def _overflow(reason: str, message: str) -> str:
    begin = {
        "Enforcing": "A request that finds no free pod goes to an emergency instance",
        "Shadow": "A request that finds no free pod waits; where its instance would start is counted",
    }.get(reason, "A request that finds no free pod waits for one")
    return f"{begin}: {message}."


def _counting(said: Explanation) -> str:
    if said.inter_arrival_s is None:
        return (
            "Excess traffic does not count toward regular scaling: no two requests came in the last hour "
            "(what waits in the queue counts always)."
        )
    verb, than = ("counts", "longer") if said.counts else ("does not count", "not longer")
    return (
        f"Excess traffic {verb} toward regular scaling: the keepalive of {said.keepalive_s:g} s is {than} "
        f"than {said.inter_arrival_s:g} s, the percentile {said.threshold_percentile:g} of "
        f"{said.inter_arrivals} inter-arrival times of the last hour (what waits in the queue counts always)."
    )


def _pool(emergency: Json, holds: dict[str, tuple[str, str, str]]) -> str:
    status, _, message = holds.get("Ready", ("", "", ""))
    prepared = (
        f"{emergency.get('prepared', 0)} instances are prepared on {emergency.get('preparedNodes', 0)} nodes"
        if status == "True"
        else f"No instance is prepared: {message}"
    )
    started = emergency.get("started", 0)
    hits = emergency.get("hitShare")
    found = f", {100 * float(hits):.0f} % of them from a prepared one" if hits else ""
    return (
        f"{prepared}; since the controller's start {started} were started{found}, "
        f"{emergency.get('refused', 0)} requests were sent back to wait, "
        f"and {emergency.get('failed', 0)} starts failed."
    )
