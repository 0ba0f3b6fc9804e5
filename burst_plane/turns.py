"""Whose turn it is. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["in_turns"]

T = TypeVar("T")


def in_turns(items: Iterable[T], namespace: Callable[[T], str]) -> list[T]:
    """The first of each namespace, then the second of each, and so on: where a few are done at a time, nobody
    waits for another's thousands."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, T]] = []
    for item in items:
        of = namespace(item)
        ranked.append((seen[of], item))
        seen[of] += 1
    return [item for _, item in sorted(ranked, key=lambda pair: pair[0])]
