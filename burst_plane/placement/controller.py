"""The placement as a process: HAProxy's questions in, addresses of emergency instances out.

It has no rights at the API server and no Lease: each placement acts for the HAProxy beside it. One asyncio
loop does everything; the health pages have a thread. Whatever goes wrong, the answer is 503, and the request
waits in the regular queue as without us.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from burst_plane.model import Started
from burst_plane.placement.desk import Desk, Placing
from burst_plane.placement.link import Link
from burst_plane.placement.messages import PlaceRequest, is_plausible, read_end_line, read_place_request
from burst_plane.placement.metrics import PlacementMetrics
from burst_plane.placement.server import Answer, LineServer, PlaceServer
from burst_plane.placement.settings import Settings
from burst_plane.placement.traffic import TrafficMeter, function_of
from burst_plane.wire.messages import StartReply, StartRequest, TrafficReport
from surgekit.haproxy.runtime import Runtime
from surgekit.haproxy.traffic import FunctionTraffic as Statistics
from surgekit.haproxy.traffic import read_traffic
from surgekit.process import logs
from surgekit.process.bind import address, refused
from surgekit.process.health_server import health_port
from surgekit.process.listener import Listener
from surgekit.wire.client import WireError
from surgekit.wire.messages import MessageError

__all__ = ["Placement", "run"]

log = structlog.get_logger(__name__)

_ATTEMPTS = 2  # the second on another agent, if the first request never reached function code
_FIRST_SHARE = 0.5  # of the budget, for the first attempt
_LEAST_BUDGET_S = 0.005
_STUCK_S = 10.0


class Placement:
    """Everything of one placement."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # New at each start: agents end what the former life of this placement left behind.
        self.name = f"{os.uname().nodename[:63]}-{secrets.token_hex(4)}"
        self.desk, self._meter = Desk(), TrafficMeter()
        self.link = Link(self.name, settings, self.desk, self._report)
        self._metrics = metrics = PlacementMetrics()
        self._runtime = Runtime(settings.statistics)
        self._reports, self._reported_s = 0, time.monotonic()
        self._working = 0
        self._beat_s = time.monotonic()
        metrics.gauge("running", "Emergency instances in use", lambda: len(self.desk.running))
        metrics.gauge(
            "agents", "Node agents that can be asked", lambda: len(self.desk.live_agents(time.monotonic()))
        )
        metrics.gauge("attached", "1 while a controller answers", lambda: float(bool(self.link.controller)))

    async def run(self, stopping: asyncio.Event) -> None:
        questions = PlaceServer(self._settings.socket, self._answer)
        lines = LineServer(self._settings.log_socket, self.take_line)
        await lines.start()
        await questions.start()
        tasks = [
            asyncio.create_task(job)
            for job in (self.link.run(), self._look(), self._forget(), stopping.wait())
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # a job that failed ends the process: kubelet starts it anew
        finally:
            await questions.stop()
            lines.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # --- one request ---

    async def _answer(self, body: bytes, waits: Callable[[], bool]) -> Answer:
        began_s = time.monotonic()
        asked = read_place_request(body)
        if asked is None:
            self._metrics.unreadable.labels("question").inc()
            return 400, b'{"reason":"unreadable"}'
        if self._working >= self._settings.most_at_once:
            return self._refuse(asked, "busy")
        self._working += 1
        try:
            started, reason = await self._place(asked, began_s)
        except Exception:  # a fault of ours: the request waits in the queue
            log.exception("placement failed", function=asked.host)
            self.desk.failed(asked.request)
            started, reason = None, "failed"
        finally:
            self._working -= 1
        if started is None:
            return self._refuse(asked, reason)
        if not waits():  # HAProxy gave up: its request waits in the queue by now
            self._end(asked.request)
            return self._refuse(asked, "too-late")
        self._metrics.placements.labels("placed").inc()
        prepared = started.origin in ("frozen", "created")
        self._metrics.starts.labels(started.origin if prepared else "cold").inc()
        self._metrics.place_seconds.observe(time.monotonic() - began_s)
        self._meter.started[asked.host] += 1
        self._meter.hits[asked.host] += prepared
        answer = {"address": started.address, "port": started.port, "instance": started.instance}
        return 200, msgspec.json.encode(answer)

    async def _place(self, asked: PlaceRequest, began_s: float) -> tuple[Started | None, str]:
        tried: list[str] = []
        reason = "too-late"
        for attempt in range(_ATTEMPTS):
            now_s = time.monotonic()
            left_s = asked.budget_s - (now_s - began_s)
            if left_s < _LEAST_BUDGET_S:
                break
            placing = self.desk.place(asked.host, asked.request, now_s, tried)
            if placing.agent is None or placing.reason:
                self._say(asked, placing)
                return None, reason if tried else placing.reason
            if attempt:
                self._metrics.retries.inc()
            reply = await self._start(placing, asked, left_s * (_FIRST_SHARE if attempt == 0 else 1.0))
            if reply.started is not None:
                if self.desk.started(asked.request, reply.started, time.monotonic()):
                    return reply.started, ""
                self.link.end_instance(placing.agent.node, reply.started.instance)
                return None, "ended"  # the client left while the instance was started
            tried.append(placing.agent.node)
            reason = reply.refused or "failed"
            if not reply.retryable:
                break
        return None, reason

    async def _start(self, placing: Placing, asked: PlaceRequest, budget_s: float) -> StartReply:
        agent, listed = placing.agent, placing.listed
        assert agent is not None  # noqa: S101  # _place has looked
        assert listed is not None  # noqa: S101
        message = StartRequest(
            request=asked.request,
            placement=self.name,
            function=listed.function,
            template=listed.template,
            budget_s=budget_s,
        )
        try:
            reply = await self.link.start(agent, message)
        except (WireError, MessageError) as error:
            log.warning("start failed", function=asked.host, node=agent.node, error=str(error))
            self.desk.rest(agent.node, listed.function, time.monotonic())
            running = self.desk.ended(asked.request)
            if running is not None and getattr(error, "sent", True):
                self.link.end(running, asked.request)  # the agent may have started it
            # HAProxy has no address of it, so function code cannot have seen the request.
            return StartReply(refused="failed", error=str(error))
        if reply.started is not None and not is_plausible(reply.started):
            log.error("an agent's answer makes no sense", function=asked.host, node=agent.node)
            reply = StartReply(refused="failed", error="no address of an instance")
        if reply.started is None:
            self.desk.failed(asked.request)
            if reply.refused == "failed":
                self.desk.rest(agent.node, listed.function, time.monotonic())
            log.info(
                "start refused", function=asked.host, node=agent.node, reason=reply.refused, error=reply.error
            )
        return reply

    def take_line(self, line: bytes) -> None:
        end = read_end_line(line)
        if end is None:
            self._metrics.unreadable.labels("line").inc()
            return
        running = self._end(end.request)
        if running:
            self._metrics.ended.labels("failed" if end.failed else "answered").inc()
            if end.failed:
                self._meter.failed[running] += 1

    def _end(self, request: str) -> str:
        """The host of the function that ran, or empty."""
        running = self.desk.ended(request)
        if running is None:
            return ""
        self.link.end(running, request)
        return running.function.host

    def _refuse(self, asked: PlaceRequest, reason: str) -> Answer:
        self._metrics.placements.labels(reason if reason in _REASONS else "failed").inc()
        if function_of(asked.host) and reason != "unknown":
            self._meter.refused[asked.host] += 1
        return 503, msgspec.json.encode({"reason": reason[:100]})

    def _say(self, asked: PlaceRequest, placing: Placing) -> None:
        if placing.reason == "shadow" and placing.agent is not None:
            log.info("would start", function=asked.host, node=placing.agent.node, mode="shadow")

    # --- beside ---

    def _report(self) -> TrafficReport:
        now_s = time.monotonic()
        interval_s, self._reported_s = now_s - self._reported_s, now_s
        self._reports += 1
        return TrafficReport(
            placement=self.name,
            sequence=self._reports,
            interval_s=interval_s,
            functions=self._meter.report(),
        )

    async def _look(self) -> None:
        while True:
            try:
                self._meter.look(await asyncio.to_thread(self._statistics))
            except (OSError, KeyError, ValueError) as error:  # HAProxy is being reloaded
                self._metrics.statistics_failures.inc()
                log.debug("no statistics", error=str(error))
            await asyncio.sleep(self._settings.look_every_s)

    def _statistics(self) -> dict[str, Statistics]:
        return read_traffic(self._runtime.map_entries(self._settings.map_file), self._runtime.functions())

    async def _forget(self) -> None:
        while True:
            self._beat_s = time.monotonic()
            for request, running in self.desk.overdue(self._beat_s).items():
                self.link.end(running, request)
            await asyncio.sleep(1.0)

    # --- health ---

    @property
    def registry(self) -> CollectorRegistry:
        return self._metrics.registry

    def alive(self, now_s: float) -> bool:
        return now_s - self._beat_s < _STUCK_S

    def not_ready(self, now_s: float) -> str:  # noqa: ARG002
        """Always ready: without controller or agents HAProxy serves regular pods all the same."""
        return ""


_REASONS = frozenset(
    {
        "unknown", "placed-before", "function-cap", "namespace-cap", "no-agents", "no-budget", "not-prepared",
        "shadow", "busy", "too-late", "ended", "draining", "failed",
    }
)  # fmt: skip


def run(settings: Settings) -> None:
    """Place until SIGTERM or SIGINT."""
    logs.configure(settings.log_level)
    placement = Placement(settings)
    try:
        port = Listener(address("health_bind", settings.health_bind), health_port(placement))
    except OSError as error:
        raise refused("health_bind", settings.health_bind, error) from error
    port.start()
    log.info("placement started", placement=placement.name, port=port.number)

    async def until_told() -> None:
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        await placement.run(stopping)

    try:
        with suppress(asyncio.CancelledError):
            asyncio.run(until_told())
    finally:
        port.stop()
    log.info("placement stopped")
