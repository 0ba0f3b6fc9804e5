"""Share functions out over the replicas of the balancer, so that a function's slots are counted once. Pure.

A function belongs to the replica with the highest hash of replica and function (rendezvous hashing): a
replica that comes or goes moves only its own functions. Ownership moves in two steps, and each replica says
at any time what it does (`Statement`):

1. The former owner gives out no more slots, and says which pods still work on its requests.
2. The new owner begins when each replica has seen its claim, claims nothing else, and gives out no slot of
   the function. It leaves out the slots that others still use.

So replicas that hear each other never give out the same slot twice. One that is not heard for `DEAD_S` counts
as gone. If it lives all the same, both give out slots: at most a pod's concurrency for each group of replicas
that hear each other. So it is with views that differ for longer than `PATIENCE_S`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec

__all__ = ["DEAD_S", "PATIENCE_S", "Move", "Ownership", "Statement", "owner", "read_statement"]

DEAD_S = 1.0  # of silence; a replica speaks every quarter of a second
PATIENCE_S = 2.0  # that a function waits for replicas to agree
LARGEST_BYTES = 1 << 22  # of a statement: 10,000 hosts of 128 bytes, three times


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """What a replica says of itself."""

    name: str  # its address
    version: int  # of `members`; grows, also over restarts
    members: frozenset[str] = frozenset()  # replicas among which it shares functions out
    heard: dict[str, int] = {}  # versions of others, as last heard  # msgspec copies it
    holds: frozenset[str] = frozenset()  # hosts of functions whose slots it gives out
    in_flight: dict[str, dict[str, int]] = {}  # of other functions: host -> pod -> requests
    stays: bool = True  # False: it is about to end, or does not serve yet


def read_statement(line: bytes) -> Statement | None:
    """None if it makes no sense."""
    if len(line) > LARGEST_BYTES:
        return None
    try:
        return msgspec.json.decode(line, type=Statement)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def owner(members: Iterable[str], host: str) -> str:
    """Empty without members."""
    return max(members, key=lambda name: (_weight(name, host), name), default="")


def _weight(name: str, host: str) -> bytes:
    return blake2b(f"{name} {host}".encode(), digest_size=8).digest()


@dataclass(frozen=True)
class Move:
    """What this replica does now."""

    holds: frozenset[str]
    waits: frozenset[str]  # own functions that cannot begin yet
    owners: Mapping[str, str]  # of functions of others: host -> replica
    in_flight: Mapping[str, Counter[str]] = field(default_factory=dict)  # elsewhere: host -> pod -> requests


class Ownership:
    """One replica's view. Call `look` after each change, carry it out, then publish `statement`."""

    def __init__(self, me: str, version: int, holds: Collection[str] = ()) -> None:
        """`holds`: functions whose slots HAProxy gives out already, after a restart of this process."""
        self.me, self.leaves, self.ready = me, False, False
        self._version, self._members = version, frozenset[str]()
        self._holds = frozenset(holds)
        self._heard: dict[str, int] = {}
        self._claimed_s: dict[str, float] = {}

    @property
    def left(self) -> bool:
        """Whether it has given its functions to others, if there are any."""
        return self.leaves and self.me not in self._members and not (self._members and self._holds)

    @property
    def members(self) -> frozenset[str]:
        return self._members

    def look(
        self, hosts: Collection[str], said: Mapping[str, Statement], mute: Collection[str], now_s: float
    ) -> Move:
        """`said`: the last statements of replicas that are heard; `mute`: replicas that were heard and still
        serve, but say nothing."""
        members = {name for name, one in said.items() if one.stays} | set(mute)
        if not self.leaves:
            members.add(self.me)
        if members != self._members:
            self._members, self._version = frozenset(members), self._version + 1
        self._heard = {name: one.version for name, one in said.items()}
        owners = {host: owner(self._members, host) for host in hosts}
        # Without other members a replica that leaves serves on until its end.
        mine = {host for host, name in owners.items() if name in (self.me, "")}
        self._claimed_s = {host: self._claimed_s.get(host, now_s) for host in mine}
        holds = {host for host in mine if host in self._holds or self._may_begin(host, said, now_s)}
        self._holds = frozenset(holds)
        in_flight: dict[str, Counter[str]] = {}
        for one in said.values():
            for host in one.in_flight.keys() & mine:
                in_flight.setdefault(host, Counter()).update(one.in_flight[host])
        others = {host: name for host, name in owners.items() if host not in mine}
        return Move(self._holds, frozenset(mine - holds), others, in_flight)

    def statement(self, in_flight: Mapping[str, Mapping[str, int]]) -> Statement:
        """What to publish, once the last move was carried out; `in_flight` of functions it does not hold."""
        return Statement(
            name=self.me,
            version=self._version,
            members=self._members,
            heard=dict(self._heard),
            holds=self._holds,
            in_flight={host: dict(pods) for host, pods in in_flight.items()},
            stays=self.ready and not self.leaves,
        )

    def _may_begin(self, host: str, said: Mapping[str, Statement], now_s: float) -> bool:
        if now_s - self._claimed_s[host] >= PATIENCE_S:
            return True
        return all(
            one.heard.get(self.me, -1) >= self._version
            and host not in one.holds
            and owner(one.members, host) != one.name
            for one in said.values()
        )
