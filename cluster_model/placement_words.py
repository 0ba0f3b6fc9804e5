"""Says in sentences what the extender decided about a pod and what the scheduler then chose. Pure.

It reads the answer of the extender's /explain, for `surgekit explain pod` and for the live page.
"""

from __future__ import annotations

from typing import Any

__all__ = ["sentences"]

Said = dict[str, Any]


def sentences(said: Said) -> list[str]:
    """What happened, in plain words."""
    mode, chosen = said["mode"], said["bound_to"]
    ranked = [c["node"] for c in said["candidates"]]
    if not said["valid"] or not ranked:
        why = "; ".join(said["reasons"])
        return [f"{mode}: the scheduler got neutral scores, because {why}; {_chose(chosen)}"]
    best = ranked[0]
    if mode == "enforce":
        lines = [f"enforce: the scheduler was told that {best} is best; {_chose(chosen)}"]
        if chosen and chosen != best:
            place = f"number {ranked.index(chosen) + 1}" if chosen in ranked else "none"
            lines[0] += f", {place} of our {len(ranked)} best: its own scores weighed more"
    else:
        chose = f"it chose {best}, too" if chosen == best else _chose(chosen)
        lines = [f"{mode}: the scheduler got neutral scores; {best} would have been chosen; {chose}"]
    by_node = {c["node"]: c for c in said["candidates"]}
    lines.append(_reason(by_node[best]))
    if chosen in by_node and chosen != best:
        lines.append(_reason(by_node[chosen]))
    return lines


def _chose(node: str | None) -> str:
    return f"it chose {node}" if node else "it has chosen none yet, as far as the extender has seen"


def _reason(candidate: dict[str, Any]) -> str:
    count = candidate["creating"]
    alone = f"it would be created there alone, in {candidate['tau_create_s']:.2g} s"
    with_others = (
        f"{count} pods with this one would be created there at once; "
        f"alone it would take {candidate['tau_create_s']:.2g} s"
    )
    pull = candidate["image_pull_s"]
    image = f"its image takes {pull:.2g} s to pull" if pull else "no image to wait for"
    return (
        f"{candidate['node']}: Ready after about {candidate['scaling_s']:.2g} s; "
        f"{alone if count == 1 else with_others}; {image}"
    )
