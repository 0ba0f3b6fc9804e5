"""Which of a backend's slots belongs to which pod. Pure.

HAProxy's servers are there from the start; a pod is given one and leaves it. The slot that was left
longest ago is taken first: connections to its former pod are long gone then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Change", "Slots"]


@dataclass(frozen=True)
class Change:
    """A slot's new address; None: it gets no more requests, those it has go on."""

    slot: int
    address: str | None


class Slots:
    """The slots of one backend."""

    def __init__(self, count: int) -> None:
        self._free = deque(range(count))
        self._taken: dict[str, tuple[int, str]] = {}
        self.without = 0  # pods that found no slot

    @property
    def taken(self) -> int:
        return len(self._taken)

    def update(self, pods: Mapping[str, str]) -> list[Change]:
        """What to change so that exactly `pods` (id to address) get requests."""
        changes = []
        for pod in [p for p, (_, address) in self._taken.items() if pods.get(p) != address]:
            number, _ = self._taken.pop(pod)
            self._free.append(number)
            changes.append(Change(number, None))
        wanting = [pod for pod in pods if pod not in self._taken]
        self.without = max(0, len(wanting) - len(self._free))
        for pod in wanting[: len(self._free)]:
            number = self._free.popleft()
            self._taken[pod] = (number, pods[pod])
            changes.append(Change(number, pods[pod]))
        return changes
