"""Post Events on the Services of functions that are past their share.

A separate thread posts them: a slow API server must not delay the sync of pods to HAProxy.
"""

from __future__ import annotations

import queue
import threading

import structlog

from function_gateway.endpoints import COMBOFUNC, Function
from surgekit.kube.api_path import InvalidPath, Resource
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.events import Events

__all__ = ["Notices"]

log = structlog.get_logger(__name__)
_SERVICES = Resource("v1", "services")
_WAITING_AT_MOST = 100  # further Events are only logged


class Notices:
    def __init__(self, kube: Kube) -> None:
        self._kube, self._events = kube, Events(kube, "balancer", "v1", "Service")
        self._waiting: queue.Queue[tuple[Function, str, str]] = queue.Queue(_WAITING_AT_MOST)
        self._thread = threading.Thread(target=self._run, name="notices", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Its thread only waits; it goes with the process."""

    def post(self, function: Function, reason: str, note: str) -> None:
        """Queue an Event and return at once."""
        log.warning("function past its share", reason=reason, namespace=function.namespace,
                    function=function.name, error=note)  # fmt: skip
        try:
            self._waiting.put_nowait((function, reason, note))
        except queue.Full:
            log.warning("event not posted", namespace=function.namespace, reason="the queue is full")

    def _run(self) -> None:
        while True:
            function, reason, note = self._waiting.get()
            try:
                selector = f"{COMBOFUNC}={function.name}"
                services, _ = self._kube.list_all(_SERVICES.path(function.namespace), labelSelector=selector)
            except (ApiError, KubeUnreachable, InvalidPath) as error:
                log.warning("event not posted", namespace=function.namespace, error=str(error))
                continue
            for service in services[:1]:
                self._events.post(service["metadata"], reason, note, "Warning")
