"""Polls the collector for targets, in a thread of its own because Prometheus may be slow."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from combofunc.collector import Asked, Target, targets
from combofunc.reconcile.spec import MAX_TARGET, ComboFunc
from combofunc.settings import Settings
from surgekit.prometheus.client import Queries, QueryBatch
from surgekit.prometheus.query_lanes import COMMON_WINDOWS_S, Lanes

__all__ = ["TargetPoller"]

_TIMEOUTS = 2  # all queries of one namespace together may take this many query timeouts


class TargetPoller:
    def __init__(
        self,
        settings: Settings,
        prometheus: Queries,
        leads: Callable[[], bool],
        functions: Callable[[], Mapping[str, ComboFunc]],
        changed: Callable[[str], None],
    ) -> None:
        """`functions`: the functions to poll, by uid. `changed`: called with the uid if a target changes."""
        self._settings, self._prometheus = settings, prometheus
        self._leads, self._functions, self._changed = leads, functions, changed
        self._lanes = Lanes(
            prometheus, _TIMEOUTS * settings.prometheus_timeout_s, not settings.unconfined_promql
        )
        self._answers: dict[str, int | str] = {}  # by uid

    def stop(self) -> None:
        self._lanes.stop()

    def target(self, function: ComboFunc) -> int | str:
        """The last target, or why there is none."""
        return self._answers.get(function.uid, "Prometheus has not been asked yet")

    def step(self) -> float:
        """Ask Prometheus for all functions; seconds until the next time."""
        self._collect()
        return self._settings.collect_every_s

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
        for namespace, own in by_namespace.items():
            self._lanes.begin(namespace, now_s, partial(self._ask, own))
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
        return f"measured concurrency {found.concurrency} is above the limit of {MAX_TARGET}"
    return found.concurrency
