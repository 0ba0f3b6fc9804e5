"""Asks the collector for targets again and again, in a thread of its own: Prometheus may be slow."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import structlog

from combofunc.collector import Asked, Target, targets
from combofunc.reconcile.spec import MAX_TARGET, ComboFunc
from combofunc.settings import Settings
from surgekit.prometheus.client import Queries, QueryBatch
from surgekit.prometheus.query_lanes import COMMON_WINDOWS_S, Lanes

__all__ = ["Collecting"]

_TIMEOUTS = 2  # of a query: as long may the queries of one namespace take together
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
        self._lanes = Lanes(
            prometheus, _TIMEOUTS * settings.prometheus_timeout_s, not settings.unconfined_promql
        )
        self._answers: dict[str, int | str] = {}  # by uid
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="collecting", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._lanes.stop()

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
        for gone in self._answers.keys() - functions.keys():
            self._answers.pop(gone, None)
        now_s, together = time.time(), list[ComboFunc]()
        by_namespace: dict[str, list[ComboFunc]] = defaultdict(list)
        for function in functions.values():
            collector = function.collector
            common = collector.query is None and collector.window_s in COMMON_WINDOWS_S
            (together if common else by_namespace[function.namespace]).append(function)
        for namespace, of_one in by_namespace.items():
            self._lanes.begin(namespace, now_s, partial(self._ask, of_one))
        self._ask(together, QueryBatch(self._prometheus, now_s))

    def _ask(self, functions: Sequence[ComboFunc], batch: QueryBatch) -> None:
        asked = [
            Asked(f.key, f.namespace, f.name, f.collector.window_s, f.collector.headroom, f.collector.query)
            for f in functions
        ]
        found = targets(batch, asked, self._settings.scrape_interval_s)
        for function in functions:
            answer = _bounded(found[function.key])
            if self._answers.get(function.uid) != answer:
                self._answers[function.uid] = answer
                self._changed(function.uid)


def _bounded(found: Target | str) -> int | str:
    if isinstance(found, str):
        return found
    if found.concurrency > MAX_TARGET:
        return f"a concurrency of {found.concurrency} was measured; {MAX_TARGET} is the most there can be"
    return found.concurrency
