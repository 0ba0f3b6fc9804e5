"""The cluster in one line: what it costs, and how much of it is asked for. Pure."""

from __future__ import annotations

from cluster_view.model import Snapshot

__all__ = ["HOURS_A_MONTH", "cost_line"]

HOURS_A_MONTH = 730.0  # 365 * 24 / 12, as clouds bill


def cost_line(snapshot: Snapshot) -> str:
    nodes, head = snapshot["nodes"].values(), snapshot["head"]
    asked = sum(node["cpu"]["requested"] for node in nodes)
    has = sum(node["cpu"]["allocatable"] for node in nodes)
    share = f"{asked:.1f} of {has:.1f} cores requested ({asked / has if has else 0.0:.0%})"
    unknown = sum(node["usd_per_hour"] is None for node in nodes)
    usd = head["usd_per_hour"]
    if usd is None:
        price = "no known price (settings: catalogue, price_labels)"
    else:
        price = f"${usd:.4f}/hour  ${usd * HOURS_A_MONTH:.2f}/month"
        price += f"  and {unknown} nodes without a known price" if unknown else ""
    return f"{head['nodes']} nodes  {head['pods']} pods  {share}  {price}"
