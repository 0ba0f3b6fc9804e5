"""Chooses a node agent for one emergency instance. Pure.

Variant `paper` is round robin. Variant `best` takes the agent where the instance is likely to run first: by
what is prepared there, by how many instances are being started there, and by the node's speed. Nodes work in
parallel, and instances that start on one node slow each other down (as in docs/decisions/extender.md), so
starts are spread. Among equals turns are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burst_plane.burst_function import Variant

__all__ = ["Candidate", "Need", "choose"]

# Call to first answer on a quiet prepared node (issue 16, measured there): frozen containers need no start,
# created ones only that, an image alone a container to be made.
_FROZEN_MS, _CREATED_MS, _IMAGE_MS = 3.0, 10.0, 60.0
_FULL_MS = 10.0  # what a fully used budget adds: among equal nodes the emptier one


@dataclass(frozen=True, slots=True)
class Need:
    cpu_millis: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """An agent that can be asked now, with what this placement has asked of it taken off."""

    node: str
    cpu_millis: int
    cpu_millis_free: int
    memory_bytes_free: int
    frozen: int
    created: int
    image_present: bool
    starting: int = 0  # instances that are being started there
    speed: float = 1.0  # NodeSpeed, relative to the mean

    def has_room(self, need: Need) -> bool:
        return self.cpu_millis_free >= need.cpu_millis and self.memory_bytes_free >= need.memory_bytes


def choose(candidates: Sequence[Candidate], need: Need, variant: Variant, turn: int) -> tuple[str, str]:
    """(node, "") or ("", why none). `turn` grows with each call."""
    ordered = sorted(candidates, key=lambda c: c.node)
    if not ordered:
        return "", "no-agents"
    if variant is Variant.PAPER:
        return ordered[turn % len(ordered)].node, ""
    with_room = [c for c in ordered if c.has_room(need)]
    if not with_room:
        return "", "no-budget"
    ready = [c for c in with_room if c.image_present or c.created or c.frozen]
    if not ready:
        return "", "not-prepared"
    costs = [_cost_ms(c) for c in ready]
    least = min(costs)
    equal = [c for c, cost in zip(ready, costs, strict=True) if cost <= least * 1.01]
    return equal[turn % len(equal)].node, ""


def _cost_ms(c: Candidate) -> float:
    """How long a start there is likely to take."""
    alone_ms = _FROZEN_MS if c.frozen > 0 else _CREATED_MS if c.created > 0 else _IMAGE_MS
    used = 1.0 - c.cpu_millis_free / c.cpu_millis if c.cpu_millis > 0 else 1.0
    # Whatever an agent says of itself, it is not better than an empty one.
    return alone_ms * (1 + c.starting) / max(c.speed, 0.01) + _FULL_MS * min(max(used, 0.0), 1.0)
