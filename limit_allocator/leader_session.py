"""The fast loop of the leader: agents' reports in, limits out.

    arrivals of wire/server.py -> Fleet.report -> Fleet.tick -> orders to the agents' streams

A decision follows a report at once: the paper's reaction time is what counts. Where there are many agents,
their reports are gathered, so that deciding takes a fifth of a core at most.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

import structlog

from limit_allocator.fleet.fleet import Fleet
from limit_allocator.fleet.model import LaterTerm
from limit_allocator.metrics import LimitMetrics
from limit_allocator.wire.messages import Hello, MessageError, Report
from limit_allocator.wire.server import AgentServer, Arrival, Closed, Stream

__all__ = ["LeaderSession", "first_term"]

log = structlog.get_logger(__name__)

_LEAST_GAP_S = 0.01  # between two decisions
_SHARE = 0.2  # of the time that decisions may take
_SESSIONS_A_TAKEOVER = 64
_MOST_ARRIVALS = 10_000  # in one step: then decide, whatever else came


def first_term(transitions: int, sessions: int) -> int:
    """The term of a leader's session. It grows with each takeover of the Lease, and each session of one.

    If somebody deletes the Lease, takeovers are counted from 0 again. Agents then say that they have greeted
    a later term, and the session moves past it.
    """
    return transitions * _SESSIONS_A_TAKEOVER + min(sessions, _SESSIONS_A_TAKEOVER - 1)


class LeaderSession:
    """From taking the Lease to losing it. `lock` guards `fleet`, which the slow loop reads, too."""

    def __init__(
        self,
        server: AgentServer,
        metrics: LimitMetrics,
        term: int,
        tick_s: float,
        *,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._server, self._metrics, self._tick_s, self._on_stop = server, metrics, tick_s, on_stop
        self.lock = threading.Lock()
        self._next_s = 0.0
        self._begin(term)

    def step(self) -> float:
        """Read what has arrived, decide, send. The shell wakes us when something arrives."""
        wait_s = self._next_s - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        began_s = time.monotonic()
        try:
            with self.lock:
                self._take_arrivals(began_s)
                with self._metrics.decision_seconds.time():
                    orders = self.fleet.tick(began_s)
        except LaterTerm as later:
            log.warning("an agent knows a later term: begin again", term=later.term)
            self._begin(later.term + 1)
            return 0.0
        self._server.send({self._streams[session]: message for session, message in orders.items()})
        self._metrics.orders.inc(len(orders))
        took_s = time.monotonic() - began_s
        self._next_s = began_s + max(_LEAST_GAP_S, took_s / _SHARE)
        return self._tick_s

    def stop(self) -> None:
        self._on_stop()
        self._server.close_all("not the leader")

    def _begin(self, term: int) -> None:
        """Agents must greet the term: those with a stream come again."""
        with self.lock:
            self.fleet = Fleet(term)
        self.began_s = time.monotonic()
        self._sessions: dict[Stream, int] = {}
        self._streams: dict[int, Stream] = {}
        self._server.close_all(f"term {term} begins")
        log.info("term begins", term=term)

    def _take_arrivals(self, now_s: float) -> None:
        for _ in range(_MOST_ARRIVALS):
            try:
                arrival = self._server.inbox.get_nowait()
            except queue.Empty:
                return
            self._server.take(arrival)
            try:
                self._take(arrival, now_s)
            except MessageError as error:
                self._metrics.failures.labels("report").inc()
                log.warning("report refused", error=str(error))
                self._forget(arrival[0])
                self._server.close(arrival[0], str(error))

    def _take(self, arrival: Arrival, now_s: float) -> None:
        stream, message = arrival
        if isinstance(message, Hello):
            session = self.fleet.attach(message)
            self._sessions[stream], self._streams[session] = session, stream
            log.info("agent connected", node=message.node, start=message.start)
        elif isinstance(message, Closed):
            self._forget(stream)
        elif stream in self._sessions:
            self._report(stream, message, now_s)

    def _report(self, stream: Stream, report: Report, now_s: float) -> None:
        session = self._sessions[stream]
        if not self.fleet.is_attached(session):  # its node has a newer stream, or is gone
            self._forget(stream)
            self._server.close(stream, "another stream of this node is newer")
            return
        self._metrics.reports.inc()
        self.fleet.report(session, report, now_s)

    def _forget(self, stream: Stream) -> None:
        session = self._sessions.pop(stream, None)
        if session is not None:
            del self._streams[session]
            self.fleet.detach(session)
