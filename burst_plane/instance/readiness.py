"""What to make ready next, and what to give up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from burst_plane.model import Function, Preparation

__all__ = ["Held", "Kind", "Make", "next_to_make", "surplus"]


class Kind(StrEnum):
    FROZEN = "frozen"
    CREATED = "created"
    COLD = "cold"


@dataclass(frozen=True, slots=True)
class Held:
    """How many containers of a function are ready or being made."""

    created: int = 0
    frozen: int = 0
    blocked: bool = False  # no image, or the last attempts failed: not now


@dataclass(frozen=True, slots=True)
class Make:
    function: Function
    kind: Kind


def next_to_make(
    preparations: Iterable[Preparation], held: Mapping[Function, Held], frozen_bytes_free: int,
    created_bytes_free: int, created_bytes: int,
) -> Make | None:  # fmt: skip
    """The function that has the smallest part of what it should have comes first; of one function, what is
    frozen: it saves the most. Nothing is made that would not fit."""
    best: tuple[float, int, Function] | None = None
    chosen: Make | None = None
    for each in preparations:
        have = held.get(each.function, Held())
        if have.blocked:
            continue
        options = (
            (Kind.FROZEN, have.frozen, each.frozen, each.spec.memory_bytes <= frozen_bytes_free),
            (Kind.CREATED, have.created, each.created, created_bytes <= created_bytes_free),
        )
        for rank, (kind, has, wants, fits) in enumerate(options):
            if has >= wants or not fits:
                continue
            key = (has / wants, rank, each.function)
            if best is None or key < best:
                best, chosen = key, Make(each.function, kind)
    return chosen


def surplus(wanted: int, ready: int) -> int:
    """How many ready containers to give up. One more than wanted is kept, so that one that was being made is
    not thrown away."""
    return max(ready - wanted - (1 if wanted else 0), 0)
