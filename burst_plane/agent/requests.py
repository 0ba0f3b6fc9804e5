"""What has become of each request: the instance that runs for it, or the answer since that has ended."""

from __future__ import annotations

import asyncio
import functools
from collections import OrderedDict
from dataclasses import dataclass, field

from burst_plane.agent.container import Container
from burst_plane.agent.stock import Order
from burst_plane.wire.messages import StartReply

__all__ = ["LONGEST_BUDGET_S", "Key", "Requests", "Run", "ended"]

LONGEST_BUDGET_S = 60.0
# Requests that are over are remembered for as long as a Start can be on its way.
_MOST_REMEMBERED = 16_384

Key = tuple[str, str]  # placement and request


@dataclass(eq=False)
class Run:
    """One request's instance, from the request to its end."""

    key: Key
    order: Order
    name: str  # of its container
    container: Container | None  # None until it is made
    begun_s: float
    limit_s: float  # when its caller has stopped waiting
    answer: asyncio.Task[StartReply] | None = None
    used_s: float = 0.0  # when it was last seen connected, or started
    deadline_s: float = 0.0  # 0: it starts
    ended: str = ""  # why
    claimed: bool = False  # the caller has the answer


@dataclass
class Requests:
    runs: dict[Key, Run] = field(default_factory=dict)  # not ended
    _over: OrderedDict[Key, tuple[float, StartReply]] = field(default_factory=OrderedDict)

    def over(self, key: Key) -> StartReply | None:
        """The answer to a request for which nothing is started any more."""
        found = self._over.get(key)
        return found[1] if found else None

    def end(self, key: Key, reply: StartReply, now_s: float) -> None:
        """Also of one that was never heard of: its Start may be on its way."""
        self.runs.pop(key, None)
        self._over[key] = now_s, reply
        self._over.move_to_end(key)
        while len(self._over) > _MOST_REMEMBERED or now_s - self._oldest_s() > LONGEST_BUDGET_S:
            self._over.popitem(last=False)

    def _oldest_s(self) -> float:
        return next(iter(self._over.values()))[0]


@functools.cache
def ended(why: str, retryable: bool) -> StartReply:
    """`why` is one of ours. What nobody was told of has seen no request."""
    return StartReply(refused="failed", error=f"the instance has ended: {why}", retryable=retryable)
