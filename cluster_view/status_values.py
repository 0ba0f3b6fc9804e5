"""Values of a status, read without raising: what makes no sense is None or empty.

Our controllers write the statuses that are shown, but whoever may write a status may write anything into it.
"""

from __future__ import annotations

import math
from typing import Any

from cluster_view.model import Condition
from cluster_view.text import plain
from surgekit.kube.quantity import QuantityError, parse

__all__ = ["conditions", "mapping", "number", "quantity", "records", "strings", "whole"]

Json = dict[str, Any]
_MOST_CONDITIONS = 16


def mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def records(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9 else None


def number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and 0 <= value < 1e18 else None


def quantity(value: object) -> float | None:
    try:
        return parse(value)
    except QuantityError:
        return None


def conditions(status: Json) -> tuple[Condition, ...]:
    said = records(status.get("conditions"))[:_MOST_CONDITIONS]
    return tuple(
        {
            "type": plain(c.get("type")),
            "status": plain(c.get("status")),
            "reason": plain(c.get("reason")),
            "message": plain(c.get("message")),
        }
        for c in said
    )
