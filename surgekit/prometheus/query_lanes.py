"""Queries that a tenant can make slow or many, each tenant's in a lane of its own.

A tenant (namespace) has one piece of work under way at a time, a limit on the time its queries take together,
and a pause of its own after a batch that was too slow. So it delays its own decisions, nobody else's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import structlog

from surgekit.process.back_off import back_off_s
from surgekit.prometheus.client import Queries, QueryBatch

__all__ = ["COMMON_WINDOWS_S", "Lanes"]

log = structlog.get_logger(__name__)
# Tenants choose the length of windows, and each length is a query over all namespaces. Functions share the
# queries of these lengths; any other is asked in the lane of its tenant.
COMMON_WINDOWS_S = frozenset({10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0})
_AT_ONCE = 4  # tenants; Prometheus answers 20 queries at a time (query.max-concurrency)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 600.0


@dataclass(slots=True)
class _Lane:
    work: Future[None] | None = None
    slow_batches: int = 0  # in a row
    paused_until_s: float = 0.0

    @property
    def pause_s(self) -> float:
        return back_off_s(self.slow_batches, _FIRST_PAUSE_S, _LONGEST_PAUSE_S)


class Lanes:
    """Used from one thread; the work runs in others."""

    def __init__(
        self,
        prometheus: Queries,
        longest_s: float,
        confine: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`longest_s`: the time a tenant's queries of one batch may take together."""
        self._prometheus, self._longest_s, self._confine, self._clock = prometheus, longest_s, confine, clock
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="lane")
        self._lanes: dict[str, _Lane] = {}

    def busy(self, tenant: str) -> bool:
        lane = self._lanes.get(tenant)
        return bool(lane and lane.work and not lane.work.done())

    def begin(self, tenant: str, at_s: float, work: Callable[[QueryBatch], None]) -> bool:
        """Have `work` ask about the moment `at_s`. False: the tenant's earlier work is not done yet."""
        if self.busy(tenant):
            return False
        self._forget()
        lane = self._lanes.setdefault(tenant, _Lane())
        why = ""
        if self._clock() < lane.paused_until_s:
            why = f"queries of {tenant} took too long: none is sent for {lane.pause_s:.0f} s"
        batch = QueryBatch(self._prometheus, at_s, self._longest_s, self._confine, refused=why)
        lane.work = self._pool.submit(self._run, tenant, lane, batch, work)
        return True

    def wait(self) -> None:
        """Until nothing is under way."""
        wait([lane.work for lane in self._lanes.values() if lane.work])

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, tenant: str, lane: _Lane, batch: QueryBatch, work: Callable[[QueryBatch], None]) -> None:
        try:
            work(batch)
        except Exception:  # one tenant's fault must not be the others'
            log.exception("lane failed", namespace=tenant)
        if batch.refused:
            return
        lane.slow_batches = lane.slow_batches + 1 if batch.slow else 0
        if batch.slow:
            lane.paused_until_s = self._clock() + lane.pause_s
            log.warning("slow queries", namespace=tenant, pause_s=lane.pause_s)

    def _forget(self) -> None:
        """Lanes with nothing to remember: namespaces come and go."""
        for tenant in [t for t, lane in self._lanes.items() if not lane.slow_batches and not self.busy(t)]:
            del self._lanes[tenant]
