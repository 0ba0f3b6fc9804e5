"""Asks somebody every so often, in a thread of its own: the extender, Prometheus."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

__all__ = ["Poller"]

log = structlog.get_logger(__name__)
_LONGEST_S = 30.0


class Poller:
    """`ask` asks and hands on what it heard. After failures in a row it is called less and less often."""

    def __init__(self, name: str, ask: Callable[[], object], every_s: float) -> None:
        self._name, self._ask, self._every_s = name, ask, every_s
        self._stopping = threading.Event()
        self._failure = ""  # as logged last

    def start(self) -> None:
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _run(self) -> None:
        wait_s = self._every_s
        while not self._stopping.is_set():
            try:
                self._ask()
                wait_s, self._failure = self._every_s, ""
            except Exception as error:  # whatever it is, the page lives on without this
                wait_s = min(wait_s * 2, _LONGEST_S)
                if (failure := type(error).__name__) != self._failure:
                    log.info("no answer", asked=self._name, error=str(error)[:300])
                    self._failure = failure
            self._stopping.wait(wait_s)
