"""Stands in for placement and controller in the arms that have no emergency track.

HAProxy asks it when a request finds no free slot. It answers that there is no instance, so the request waits,
and the policy hears of it at once. All arms thus have the same gateway.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import orjson

from burst_plane.placement.server import LineServer, PlaceServer
from experiments.pulsenet.live.policies import Policy
from surgekit.errors import UserError
from surgekit.haproxy.gateway_files import FUNCTIONS_MAP, PLACEMENT, PLACEMENT_LOG, STATISTICS
from surgekit.haproxy.runtime import Runtime
from surgekit.haproxy.traffic import FunctionTraffic, read_traffic

__all__ = ["Autoscaler", "look"]

_LOOK_S = 0.1
_REFUSED = (503, b'{"reason":"no-budget"}')


def look(directory: Path) -> dict[str, FunctionTraffic]:
    """What HAProxy counts now, by host."""
    runtime = Runtime(directory / STATISTICS)
    return read_traffic(runtime.map_entries(directory / FUNCTIONS_MAP), runtime.functions())


class Autoscaler:
    """A thread that decides and one that writes. `scale(host, replicas)` calls the API server."""

    def __init__(
        self, directory: Path, policies: Mapping[str, Policy], asked: Mapping[str, int],
        scale: Callable[[str, int], None],
    ) -> None:  # fmt: skip
        self._directory, self._policies, self._scale = directory, policies, scale
        self._asked, self._written = dict(asked), dict(asked)
        self._missed: set[str] = set()
        self._changed, self._lock, self._stopped = threading.Event(), threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._decide, self._write)]
        self._cpu_s = {"decide": 0.0, "write": 0.0}
        self.failed_looks = self.failed_writes = 0

    def __enter__(self) -> Autoscaler:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._changed.set()
        for thread in self._threads:
            thread.join(timeout=10.0)

    @property
    def cpu_s(self) -> float:
        return sum(self._cpu_s.values())

    def _decide(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        heard = asyncio.Event()

        async def answer(body: bytes, _waits: Callable[[], bool]) -> tuple[int, bytes]:
            with suppress(ValueError, KeyError):
                self._missed.add(orjson.loads(body)["function"])
                heard.set()
            return _REFUSED

        places = PlaceServer(self._directory / PLACEMENT, answer)
        lines = LineServer(self._directory / PLACEMENT_LOG, lambda _: None)
        await places.start()
        await lines.start()
        while not self._stopped.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(heard.wait(), _LOOK_S)
            heard.clear()
            self._step()
            self._cpu_s["decide"] = time.thread_time()
        lines.stop()
        await places.stop()

    def _step(self) -> None:
        missed, self._missed = self._missed, set()
        try:
            seen, now_s = look(self._directory), time.monotonic()
        except OSError:
            self.failed_looks += 1
            self._missed |= missed
            return
        with self._lock:
            before = dict(self._asked)
            for host, policy in self._policies.items():
                if host in seen:
                    self._asked[host] = policy.look(seen[host], self._asked[host], host in missed, now_s)
            if self._asked != before:
                self._changed.set()

    def _write(self) -> None:
        """The latest numbers; a burst makes many, and the API server gets the last."""
        while not self._stopped.is_set():
            self._changed.wait()
            self._changed.clear()
            with self._lock:
                due = {host: n for host, n in self._asked.items() if self._written[host] != n}
            for host, number in due.items():
                try:
                    self._scale(host, number)
                    self._written[host] = number
                except UserError:  # counted, and written again
                    self.failed_writes += 1
                    self._changed.set()
            self._cpu_s["write"] = time.thread_time()
