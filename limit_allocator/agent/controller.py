"""The agent as a process: its loop in the main thread, the link and the health pages in threads beside it.

It is no `surgekit.process.controller.Controller`: that shell posts Events and holds a Lease, and the agent
cannot talk to the API server. Its back-off of up to a minute would leave containers paused, too. Nor does it
run under gunicorn, which keeps a second process on every node for a few requests a minute. So, like the
expander, it opens its own port.

A tick that fails is logged and counted, and the next one comes in time. If none succeeds for 10 s, the
process ends: the guard lets paused containers go, and the next start writes all limits back.
"""

from __future__ import annotations

import os
import signal
import time
from types import FrameType

import structlog
from prometheus_client import CollectorRegistry

from limit_allocator.agent.metrics import AgentMetrics
from limit_allocator.agent.node_agent import NodeAgent
from limit_allocator.agent.node_memory import NodeMemory
from limit_allocator.agent.settings import Settings
from limit_allocator.agent.starts import BOOT_ID, Starts
from limit_allocator.cgroups.guard import hold
from limit_allocator.cgroups.originals import Originals
from limit_allocator.wire.link import Link
from limit_allocator.wire.messages import Report
from surgekit.process import logs
from surgekit.process.bind import address, refused
from surgekit.process.health_server import health_port
from surgekit.process.listener import Listener

__all__ = ["Process", "run"]

log = structlog.get_logger(__name__)

_FAILING_S = 10.0


class Process:
    """Everything of one agent. The journal's lock must be held."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._link = Link(
            settings.controller, settings.server_name, settings.tls_directory, settings.token_file
        )
        self._agent = NodeAgent(
            settings.node_name,
            Originals(settings.journal, settings.hierarchy),
            Starts.begin(settings.journal, BOOT_ID.read_text().strip()),
            self._link,
            NodeMemory(settings.eviction_threshold_mib << 20),
            settings.longest_pause_s,
        )
        self._metrics = AgentMetrics(self._agent, lambda: self._link.stream != 0)
        self._stream = 0
        self._stopping = False
        self._succeeded_s = self._streamed_s = time.monotonic()

    def run(self) -> None:
        """Until `stop`, or until nothing has worked for a time. Limits are written back in the end."""
        self._link.start(self._agent.hello)
        period_s, next_s = self._settings.period_s, time.monotonic()
        try:
            while not self._stopping:
                # A tick that comes late does not make the next ones hurry.
                next_s = max(next_s + period_s, time.monotonic())
                self._tick(next_s)
        finally:
            self._link.stop()
            self._agent.stop()

    def stop(self) -> None:
        """End after this tick."""
        self._stopping = True

    def _tick(self, until_s: float) -> None:
        now_s = time.monotonic()
        try:
            self._follow_stream(now_s)
            with self._metrics.tick_s.time():
                report = self._agent.step(now_s)
            self._send(report)
            while True:
                self._send(self._agent.wait(until_s))
                if self._stopping or time.monotonic() >= until_s:
                    break
        except Exception:  # a fault of ours must not leave containers paused
            self._metrics.faults += 1
            log.exception("tick failed")
            if now_s - self._succeeded_s >= _FAILING_S:
                raise
            time.sleep(max(until_s - time.monotonic(), 0.0))
        else:
            self._succeeded_s = now_s

    def _send(self, report: Report | None) -> None:
        if report is not None:
            self._link.send(report, self._stream)

    def _follow_stream(self, now_s: float) -> None:
        if self._link.stream != self._stream:
            self._stream = self._link.stream
            (self._agent.begin_stream if self._stream else self._agent.end_stream)()
        after_s = self._settings.write_back_after_s
        if self._stream:
            self._streamed_s = now_s
        elif after_s and now_s - self._streamed_s >= after_s:
            self._agent.give_up()

    # Health

    @property
    def registry(self) -> CollectorRegistry:
        return self._metrics.registry

    def alive(self, now_s: float) -> bool:
        return now_s - self._succeeded_s < _FAILING_S and self._link.alive()

    def not_ready(self, now_s: float) -> str:  # noqa: ARG002
        return "" if self._link.stream else "no controller answers"


def run(settings: Settings) -> None:
    """Look after the node's containers until SIGTERM or SIGINT."""
    logs.configure(settings.log_level)
    stopping = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        if process is not None:
            process.stop()

    process: Process | None = None
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    # Another agent of this node may be about to end, or the guard at work.
    while (lock := hold(settings.journal)) is None:
        if stopping:
            return
        time.sleep(0.1)
    process = Process(settings)
    if stopping:
        process.stop()
    port = _listen(settings.health_bind, process)
    port.start()
    log.info("agent started", node=settings.node_name, port=port.number)
    try:
        process.run()
    finally:
        port.stop()
        os.close(lock)
    log.info("agent stopped")


def _listen(bind: str, process: Process) -> Listener:
    try:
        return Listener(address("health_bind", bind), health_port(process))
    except OSError as error:
        raise refused("health_bind", bind, error) from error
