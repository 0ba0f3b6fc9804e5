"""Builds conditions of a status, and tells whether a status differs from the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

__all__ = ["Condition", "conditions", "differs", "stamp", "status_before", "unix_s"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Condition:
    type: str
    holds: bool | None  # None: Unknown
    reason: str
    message: str


def stamp(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def unix_s(text: object) -> float | None:
    """The Unix time of an API timestamp; None if `text` is not one."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment.timestamp() if moment and moment.tzinfo else None


def conditions(before: Json, said: Sequence[Condition], generation: int, now_s: float) -> list[Json]:
    """Conditions in API form. lastTransitionTime stays as in `before` while the condition's status stays."""
    known = {c["type"]: c for c in before.get("conditions") or ()}
    result = []
    for condition in said:
        status = "Unknown" if condition.holds is None else str(condition.holds)
        old = known.get(condition.type, {})
        since = old.get("lastTransitionTime") if old.get("status") == status else None
        result.append(
            {
                "type": condition.type,
                "status": status,
                "reason": condition.reason,
                "message": condition.message,
                "observedGeneration": generation,
                "lastTransitionTime": since or stamp(now_s),
            }
        )
    return result


def status_before(obj: Json) -> Json:
    """The object's status; empty if it has none, or one that this code cannot have written."""
    status = obj.get("status")
    listed = status.get("conditions") or [] if isinstance(status, dict) else None
    sane = isinstance(listed, list) and all(
        isinstance(c, dict) and isinstance(c.get("type"), str) and isinstance(c.get("reason"), str)
        for c in listed
    )
    return status if sane and isinstance(status, dict) else {}


def differs(before: Json, status: Json) -> bool:
    """Whether a merge patch with `status` would change anything, and is worth a write."""
    return any(before.get(key) != value for key, value in status.items())
