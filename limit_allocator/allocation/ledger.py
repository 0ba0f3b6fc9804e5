"""The account that keeps an application within its limit, whatever is lost on the way.

The sum of what may be written on nodes never grows past the application's limit. The ledger knows for each
account (a container's limit, or an agent's memory reserve) what its agent last said is written, and which
commands may still be on their way. It counts the highest of these. So a raise is sent only when the cut that
pays for it is acknowledged, and what is lost, late, repeated or out of order only delays.

This holds because agents follow three rules (`limit_allocator.allocation.node_account`):
- Commands have growing sequence numbers. An agent ignores a command that is not newer than the last one it
  carried out for the account.
- An agent's starts are numbered. It ignores commands for an earlier start of itself, so that commands from
  before a restart are void once the restarted agent has reported.
- A controller's terms are numbered, and a term's sequence numbers are above those of earlier terms. An agent
  that has greeted a term ignores commands of earlier ones, and a new controller believes only reports of
  agents that have greeted it.

If the limit is lowered below what is counted, the sum can only fall until it fits again. Accounts of a lost
agent stay counted. After a controller's restart, an agent that has not reported yet may hold anything: an
account of `UNKNOWN` in each of its applications, removed with its first report, prevents raises.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from limit_allocator.allocation.fair_share import fair_share, group_sums, running_sums
from limit_allocator.allocation.model import Booleans, Integers, first_sequence

__all__ = ["UNKNOWN", "Commands", "Ledger", "Reports"]

# Distinct commands on their way that an account remembers one by one. Of more, the oldest are remembered by
# their highest value: never less than the truth.
_REMEMBERED = 4
_NONE = np.int64(-1)
UNKNOWN = 1 << 50  # 1 PiB: above any limit, and sums of it are exact

_ROW = np.dtype(
    [
        ("group", "i8"), ("floor", "i8"), ("target", "i8"), ("joining", "?"),
        ("order", "i8"), ("start", "i8"), ("written", "i8"), ("grown", "i8"),
        ("sent_value", "i8"), ("sent_sequence", "i8"), ("sent_at_s", "f8"), ("folded", "i8"),
        ("way_sequence", "i8", (_REMEMBERED,)), ("way_value", "i8", (_REMEMBERED,)),
    ]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Commands:
    """What to send, as arrays of one length. Each sets one account to a value."""

    slots: Integers
    start: Integers  # of the agent it is for
    sequence: Integers
    value: Integers
    # Local growth of the container that the value contains; what it grew beyond comes on top.
    grown_seen: Integers


@dataclass(frozen=True, slots=True)
class Reports:
    """What agents say is written, as arrays of one length."""

    slots: Integers
    order: Integers  # `report_order` of the report
    start: Integers  # of the agent
    term: Integers  # the highest controller's term that the agent has greeted
    applied: Integers  # sequence number of the last command carried out; 0: none since the agent's start
    joined: Booleans  # False: the container still runs at its ceiling
    written: Integers  # without growth that is still paid by the reserve; a reserve: what it was granted
    grown: Integers  # bytes by which the agent raised the limit from its reserve, in all
    folded: Integers  # of these, what commands have made part of the limit


class Ledger:
    """One resource of all applications. Slots are row numbers that the caller gives out; groups too."""

    def __init__(self, term: int, resend_after_s: float = 0.2) -> None:
        self._rows = np.zeros(0, _ROW)
        self._limits = np.zeros(0, np.int64)
        self._term = term
        self._sequence = first_sequence(term)
        self._resend_after_s = resend_after_s

    def set_limit(self, group: int, limit: int) -> None:
        missing = group + 1 - len(self._limits)
        self._limits = np.concatenate([self._limits, np.zeros(max(missing, 0), np.int64)])
        self._limits[group] = limit

    def add(self, slot: int, group: int, floor: int, written: int | None = None) -> None:
        """Open an account. `written` is the most it can hold now; None: it joins with its first command.

        Until then a container runs at its ceiling and is not counted. It joins when there is room for its
        floor.
        """
        if slot >= len(self._rows):
            more = np.zeros(max(slot + 1, 2 * len(self._rows), 64) - len(self._rows), _ROW)
            more["group"] = _NONE
            self._rows = np.concatenate([self._rows, more])
        row = self._rows[slot : slot + 1]
        row[:] = np.zeros(1, _ROW)
        row["group"], row["floor"], row["joining"] = group, floor, written is None
        row["written"] = row["sent_value"] = row["target"] = written or 0
        row["order"] = row["start"] = _NONE

    def set_floors(self, slots: Integers, floors: Integers) -> None:
        """What accounts need to join."""
        self._rows["floor"][slots] = floors

    def remove(self, slots: Integers) -> None:
        """Close accounts. Only once the agent, or the end of the node, says that they are gone."""
        self._rows["group"][slots] = _NONE

    def set_targets(self, slots: Integers, targets: Integers) -> None:
        """What accounts should have. The ledger goes there as far and as soon as it may."""
        self._rows["target"][slots] = targets

    def report(self, reports: Reports) -> None:
        """Take over what is written. Ignores what is older than what is known, and what no term protects."""
        if not len(reports.slots):
            return
        rows = self._rows
        before = rows["order"][reports.slots]
        valid = (
            (reports.term >= self._term) & (rows["group"][reports.slots] != _NONE) & (reports.order > before)
        )
        latest = np.full(len(rows), _NONE)
        np.maximum.at(latest, reports.slots[valid], reports.order[valid])
        valid &= reports.order == latest[reports.slots]
        slots, applied = reports.slots[valid], reports.applied[valid]
        restarted = reports.start[valid] != rows["start"][slots]
        rows["order"][slots] = reports.order[valid]
        rows["start"][slots] = reports.start[valid]
        joined = reports.joined[valid]
        rows["joining"][slots] = ~joined
        rows["written"][slots] = np.where(joined, reports.written[valid], 0)
        rows["grown"][slots] = reports.grown[valid]
        done = (rows["way_sequence"][slots] <= applied[:, None]) | restarted[:, None]
        rows["way_sequence"][slots] = np.where(done, 0, rows["way_sequence"][slots])
        # Nothing is on its way: what is written counts, even if the kernel refused a part of the command.
        settled = done.all(axis=1)
        rows["sent_value"][slots] = np.where(settled, rows["written"][slots], rows["sent_value"][slots])
        rows["folded"][slots] = np.where(settled, reports.folded[valid], rows["folded"][slots])

    def commands(self, now_s: float) -> Commands:
        """What to send now: new values, and those that were not acknowledged in time.

        Within what is counted for it, an account can be set to anything at once. Beyond that, accounts share
        the room that their group has; those that join get their floor first.
        """
        rows = self._rows
        accounts = np.flatnonzero(rows["group"] != _NONE)
        counted = self._counted(accounts)
        sums = group_sums(counted, rows["group"][accounts], len(self._limits))
        room = np.maximum(self._limits - sums, 0)
        reported = rows["start"][accounts] != _NONE
        slots, counted = accounts[reported], counted[reported]
        group, target = rows["group"][slots], rows["target"][slots]
        raised = target > counted
        least = counted.copy()
        joining = raised & (counted == 0) & rows["joining"][slots]
        if joining.any():
            least[joining], raised[joining] = self._admit(slots[joining], room)
        value = target.copy()
        members = group[raised]
        capacity = room + group_sums(counted[raised], members, len(room))
        # Growth that a reserve pays is there already: folding it into the limit comes last.
        grown = rows["grown"][slots] - rows["folded"][slots]
        lacking = fair_share((target - grown)[raised], least[raised], members, capacity)
        value[raised] = fair_share(target[raised], lacking, members, capacity)
        value[joining & ~raised] = 0

        # What the value does not contain stays paid by the reserve, as far as the target contains it.
        unseen = np.minimum(np.maximum(target - value, 0), grown)
        new = (value != rows["sent_value"][slots]) | (unseen < grown)
        unanswered = rows["way_sequence"][slots, -1] > 0
        late = unanswered & (now_s - rows["sent_at_s"][slots] >= self._resend_after_s)
        rows["folded"][slots[new]] += (grown - unseen)[new]
        self._send(slots[new], value[new])
        sent = slots[new | late]
        rows["sent_at_s"][sent] = now_s
        return Commands(
            sent,
            rows["start"][sent],
            rows["sent_sequence"][sent],
            rows["sent_value"][sent],
            rows["folded"][sent],
        )

    @property
    def counted(self) -> Integers:
        """Per group: the most that can be written on nodes, now or when commands on their way arrive."""
        slots = np.flatnonzero(self._rows["group"] != _NONE)
        return group_sums(self._counted(slots), self._rows["group"][slots], len(self._limits))

    @property
    def room(self) -> Integers:
        """Per group: what may still be given out; negative while the limit is below what is counted."""
        return self._limits - self.counted

    def counted_of(self, slots: Integers) -> Integers:
        """The most that each account can hold, now or when commands on their way arrive."""
        return self._counted(slots)

    def decided(self, slots: Integers) -> Integers:
        """What accounts have once commands on their way arrive, with local growth; 0: not joined yet."""
        rows = self._rows
        grown: Integers = rows["sent_value"][slots] + rows["grown"][slots] - rows["folded"][slots]
        return grown

    def joining(self, slots: Integers) -> Booleans:
        """Accounts that no agent has acknowledged yet."""
        joining: Booleans = self._rows["joining"][slots]
        return joining

    def _counted(self, slots: Integers) -> Integers:
        rows = self._rows
        counted: Integers = rows["written"][slots]
        for way in range(_REMEMBERED):  # several times faster than a maximum over such a short axis
            on_way = rows["way_sequence"][slots, way] > 0
            counted = np.where(on_way, np.maximum(counted, rows["way_value"][slots, way]), counted)
        return counted

    def _admit(self, slots: Integers, room: Integers) -> tuple[Integers, Booleans]:
        """Floors of those that join, and whether there is room for each, in order of slots."""
        floor, group = self._rows["floor"][slots], self._rows["group"][slots]
        return floor, running_sums(floor, group) <= room[group]

    def _send(self, slots: Integers, value: Integers) -> None:
        """Note new commands as on their way."""
        rows = self._rows
        sequence = self._sequence + 1 + np.arange(len(slots))
        self._sequence += len(slots)
        on_way, values = rows["way_sequence"][slots], rows["way_value"][slots]
        values = np.where(on_way > 0, values, 0)
        # Newest last. The oldest two become one, which is done when the younger of them is.
        values[:, 1] = np.maximum(values[:, 0], values[:, 1])
        on_way[:, 1] = np.maximum(on_way[:, 0], on_way[:, 1])
        rows["way_sequence"][slots] = np.column_stack([on_way[:, 1:], sequence])
        rows["way_value"][slots] = np.column_stack([values[:, 1:], value])
        rows["sent_value"][slots], rows["sent_sequence"][slots] = value, sequence
