"""Assign a fixed number of slots to owners. Pure.

HAProxy's servers exist from the start; a pod gets one and gives it back. An owner that comes back gets its
former slot if it is free, because HAProxy still counts its requests there. Other owners get the slot that
has been free longest, because connections to its former pod are gone by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

__all__ = ["Change", "Slots"]


@dataclass(frozen=True)
class Change:
    """A slot's new owner, or None."""

    slot: int
    owner: str | None


class Slots:
    """`taken` and `left` describe an earlier state: slot -> owner, and slot -> last owner."""

    def __init__(
        self, count: int, taken: Mapping[int, str] | None = None, left: Mapping[int, str] | None = None
    ) -> None:
        self._last = {**(left or {}), **(taken or {})}
        self._taken: dict[str, int] = {}
        for number, owner in (taken or {}).items():
            self._taken.setdefault(owner, number)
        # Unused slots first, then those given back, whose order is not known here.
        held = set(self._taken.values())
        free = [number for number in range(count) if number not in held]
        self._free = deque(sorted(free, key=lambda number: (number in self._last, number)))
        self.without: tuple[str, ...] = ()  # owners that got no slot

    @property
    def taken(self) -> Mapping[str, int]:
        """Slots by owner."""
        return self._taken

    @property
    def last(self) -> Mapping[int, str]:
        """Each slot's owner, or else its last one."""
        return self._last

    def update(self, owners: Collection[str]) -> list[Change]:
        """The changes after which exactly `owners` have a slot, as far as slots suffice."""
        changes = []
        wanted = dict.fromkeys(owners)
        for owner in [owner for owner in self._taken if owner not in wanted]:
            number = self._taken.pop(owner)
            self._free.append(number)
            changes.append(Change(number, None))
        wanting = [owner for owner in wanted if owner not in self._taken]
        former = {self._last[number]: number for number in self._free if number in self._last}
        for owner in wanting[: len(self._free)]:
            if owner in former:
                self._free.remove(former[owner])
                changes.append(self._give(former[owner], owner))
        self.without = ()
        for owner in [owner for owner in wanting if owner not in self._taken]:
            if self._free:
                changes.append(self._give(self._free.popleft(), owner))
            else:
                self.without += (owner,)
        return changes

    def _give(self, number: int, owner: str) -> Change:
        self._taken[owner], self._last[number] = number, owner
        return Change(number, owner)
