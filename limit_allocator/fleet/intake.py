"""An agent's report, checked: a bad one raises `MessageError` before anything has changed."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

import numpy as np

from limit_allocator.allocation.model import Integers
from limit_allocator.wire.messages import (
    ACCOUNT_ROWS,
    CPU_ROWS,
    MEMORY_ROWS,
    MOST_CONTAINERS,
    MessageError,
    Report,
    table,
)  # fmt: skip

__all__ = ["Keys", "Tables", "check_roll"]

_TOO_MUCH = 1 << 50  # as in `messages`
_REMEMBERED = 8


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a report: rows as in `messages`, one column a container."""

    gone: Integers
    cpu: Integers
    memory: Integers
    cpu_accounts: Integers
    memory_accounts: Integers

    @staticmethod
    def of(report: Report) -> Tables:
        return Tables(
            _checked(report.gone, ("key",))[0],
            _checked(report.cpu, CPU_ROWS),
            _checked(report.memory, MEMORY_ROWS),
            _accounts(report.cpu_accounts),
            _accounts(report.memory_accounts),
        )

    def keys(self) -> set[int]:
        """Who is named otherwise than as gone."""
        tables = (self.cpu, self.memory, self.cpu_accounts, self.memory_accounts)
        return set(np.concatenate([rows[0] for rows in tables]).tolist())


class Keys:
    """An agent's keys and their slots; -1: a container that is not ours."""

    def __init__(self, slots: Mapping[int, int]) -> None:
        order = sorted(slots)
        self.slot_of = dict(slots)
        self._keys = np.array(order, np.int64)
        self._slots = np.array([slots[key] for key in order], np.int64)
        # Most tables name the same containers in the same order each time.
        self._remembered: dict[bytes, Integers] = {}

    def slots(self, keys: Integers) -> Integers:
        if not len(keys):
            return keys
        content = keys.tobytes()
        slots = self._remembered.get(content)
        if slots is None:
            slots = self._look_up(keys)
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered[content] = slots
        return slots

    def _look_up(self, keys: Integers) -> Integers:
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        if not len(self._keys) or (self._keys[at] != keys).any():
            raise MessageError("a table names a container that the agent has not found")
        return self._slots[at]


def check_roll(
    report: Report, tables: Tables, known: Mapping[int, int], gone: Set[int], ids: Set[str]
) -> None:
    """Who is found and who is gone fits to who was known. `ids` are of containers that stay."""
    left = known.keys() - gone
    found = {f.key for f in report.found}
    found_ids = {f.container_id for f in report.found}
    if len(found) < len(report.found) or len(found_ids) < len(report.found):
        raise MessageError("a report names a container twice")
    if found & (known.keys() | gone) or found_ids & ids:
        raise MessageError("a container is found again")
    if len(left) + len(found) > MOST_CONTAINERS:
        raise MessageError(f"an agent has more than {MOST_CONTAINERS} containers")
    if not tables.keys() <= left | found | gone:
        raise MessageError("a table names a container that the agent has not found")


def _checked(content: bytes, rows: tuple[str, ...]) -> Integers:
    values = table(content, rows)
    # As unsigned numbers, negative ones are the largest.
    if values.size and values.view(np.uint64).max() >= _TOO_MUCH:
        raise MessageError(f"a table of {', '.join(rows)} has a number that is out of range")
    return values


def _accounts(content: bytes) -> Integers:
    values = table(content, ACCOUNT_ROWS)
    # `applied` is a sequence number, which may be larger.
    if values.size and (values[:2].min() < 0 or values[2:].view(np.uint64).max() >= _TOO_MUCH):
        raise MessageError("a table of accounts has a number that is out of range")
    return values
