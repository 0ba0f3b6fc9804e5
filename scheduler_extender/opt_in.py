"""Decide whether a pod is scored: by the label surgekit.dev/placement of the pod, else of its namespace,
else by its scheduler.

The label's value is the requested mode. The extender's own mode is the upper limit.
"""

from __future__ import annotations

import math
from typing import Any

from scheduler_extender.model import Overrides
from surgekit.process.modes import Mode

__all__ = ["ANNOTATIONS", "LABEL", "mode_for", "overrides"]

LABEL = "surgekit.dev/placement"
ANNOTATIONS = {
    "surgekit.dev/price-weight": ("price_weight", 0.0, 1e6),
    "surgekit.dev/price-swing": ("price_swing", 0.0, 1.0),
    "surgekit.dev/concurrency": ("concurrency", 1e-6, 1e9),
}
_STRENGTH = {Mode.OFF: 0, Mode.SHADOW: 1, Mode.ENFORCE: 2}


def mode_for(
    pod_labels: dict[str, str],
    namespace_labels: dict[str, str],
    scheduler_name: str,
    most: Mode,
    own_scheduler: str,
) -> Mode:
    """The pod's mode. Its own label wins over its namespace's; an unknown value means off."""
    asked = pod_labels.get(LABEL, namespace_labels.get(LABEL))
    if asked is None:
        wanted = Mode.ENFORCE if scheduler_name == own_scheduler else Mode.OFF
    else:
        wanted = Mode(asked) if asked in Mode.__members__.values() else Mode.OFF
    return min(wanted, most, key=_STRENGTH.__getitem__)


def overrides(
    pod_annotations: dict[str, Any], namespace_annotations: dict[str, Any]
) -> tuple[Overrides, list[str]]:
    """The values of the annotations, and a complaint for each one that is ignored because it is unusable."""
    values: dict[str, float] = {}
    complaints: list[str] = []
    for key, (name, low, high) in ANNOTATIONS.items():
        text = pod_annotations.get(key, namespace_annotations.get(key))
        if text is None:
            continue
        try:
            value = float(text)
        except (TypeError, ValueError):
            value = math.nan
        if low <= value <= high:
            values[name] = value
        else:
            complaints.append(f"annotation {key}: {text!r} is not a number in {low:g}..{high:g}, ignored")
    return Overrides(**values), complaints
