"""A cache with a time to live per entry."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

__all__ = ["Expiring"]

K = TypeVar("K")
V = TypeVar("V")


class Expiring(Generic[K, V]):
    """Keeps each value until its own time; evicts the oldest when full. Thread-safe."""

    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._lock = threading.Lock()
        self._kept: dict[K, tuple[float, V]] = {}

    def get(self, key: K, now_s: float) -> V | None:
        found = self._kept.get(key)
        return found[1] if found is not None and now_s < found[0] else None

    def put(self, key: K, value: V, until_s: float) -> None:
        with self._lock:
            self._kept.pop(key, None)  # keeps the order of insertion the order of age
            self._kept[key] = (until_s, value)
            while len(self._kept) > self._at_most:
                del self._kept[next(iter(self._kept))]
