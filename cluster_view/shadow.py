"""What a shadow decision of the extender would have changed. Pure."""

from __future__ import annotations

from typing import Any

from cluster_model.contention import MEASURED
from cluster_view.facts import SpeedFacts
from cluster_view.model import Difference

__all__ = ["placement_difference"]

Json = dict[str, Any]


def placement_difference(said: Json, speed: SpeedFacts | None, creating: int) -> Difference | None:
    """Until the pod is Ready: on the extender's best node, less on the node that the scheduler chose.

    Both are estimates by the speeds of nodes. The extender names its ten best nodes; where the chosen one is
    none of them, `speed` is its speed and `creating` what is being created there, and no image is pulled.
    """
    ranked, chosen = said["candidates"], said["bound_to"]
    if said["mode"] != "shadow" or not said["valid"] or not ranked or not chosen:
        return None
    known = next((c["scaling_s"] for c in ranked if c["node"] == chosen), None)
    if known is None and speed is not None:
        work = MEASURED.work(int(said["pod"]["containers"]))
        known = work * speed.creation_s * MEASURED.creation.slowdown(max(creating, 1))
    seconds = None if known is None else round(ranked[0]["scaling_s"] - known, 3)
    return {"seconds": seconds, "usd_per_hour": None}
