"""Asks the collector for targets again and again, in a thread of its own: Prometheus may be slow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import structlog

from scheduler_extender.collector import Asked, Target, targets
from scheduler_extender.combofunc.settings import Settings
from scheduler_extender.combofunc.spec import MAX_TARGET, ComboFunc
from surgekit.prometheus import Queries

__all__ = ["Collecting"]

log = structlog.get_logger(__name__)


class Collecting:
    def __init__(
        self,
        settings: Settings,
        prometheus: Queries,
        leads: Callable[[], bool],
        functions: Callable[[], Mapping[str, ComboFunc]],
        changed: Callable[[str], None],
    ) -> None:
        """`functions`: by uid, those to ask for; `changed`: told the uid of one whose answer is another."""
        self._settings, self._prometheus = settings, prometheus
        self._leads, self._functions, self._changed = leads, functions, changed
        self._answers: dict[str, int | str] = {}  # by uid; replaced as a whole
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="collecting", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def target(self, function: ComboFunc) -> int | str:
        """The last answer: a target, or why there is none."""
        return self._answers.get(function.uid, "Prometheus has not been asked yet")

    def _run(self) -> None:
        while not self._stopping.wait(self._settings.collect_every_s):
            try:
                self._collect()
            except Exception:  # a fault of ours in one round must not be the end of all
                log.exception("collecting failed")

    def _collect(self) -> None:
        functions = self._functions() if self._leads() else {}
        asked = [
            Asked(f.key, f.namespace, f.name, f.collector.window_s, f.collector.headroom, f.collector.query)
            for f in functions.values()
        ]
        found = (
            targets(self._prometheus, asked, time.time(), self._settings.scrape_interval_s) if asked else {}
        )
        before, self._answers = (
            self._answers,
            {uid: _bounded(found[function.key]) for uid, function in functions.items()},
        )
        for uid, answer in self._answers.items():
            if before.get(uid) != answer:
                self._changed(uid)


def _bounded(found: Target | str) -> int | str:
    if isinstance(found, str):
        return found
    if found.concurrency > MAX_TARGET:
        return f"a concurrency of {found.concurrency} was measured; {MAX_TARGET} is the most there can be"
    return found.concurrency
