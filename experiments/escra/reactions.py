"""How soon a throttled container gets a higher quota, as an observer of its cgroup sees it. Pure.

The clock starts when the observer sees that a period has ended throttled (`nr_throttled` grew), and stops
when it sees a higher quota. Both are seen late by up to one look, so the difference is right in the mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Reactions"]

_GIVEN_UP_MS = 1000.0


@dataclass
class _Seen:
    throttled: int
    quota_us: int
    waiting_since_s: float | None = None


@dataclass
class Reactions:
    took_ms: list[float] = field(default_factory=list)
    unanswered: int = 0  # not raised within a second: no room, or at its ceiling
    _seen: dict[str, _Seen] = field(default_factory=dict)

    def note(self, now_s: float, name: str, throttled: int, quota_us: int) -> None:
        """A look at one container. Further throttled periods before the answer count as one."""
        seen = self._seen.setdefault(name, _Seen(throttled, quota_us))
        since_s = seen.waiting_since_s
        if since_s is not None:
            waited_ms = 1e3 * (now_s - since_s)
            if quota_us > seen.quota_us:
                self.took_ms.append(waited_ms)
                seen.waiting_since_s = None
            elif waited_ms >= _GIVEN_UP_MS:
                self.unanswered += 1
                seen.waiting_since_s = None
        elif throttled > seen.throttled and quota_us <= seen.quota_us:
            seen.waiting_since_s = now_s
        seen.throttled, seen.quota_us = throttled, quota_us
