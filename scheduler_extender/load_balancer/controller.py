"""The balancer as a process beside HAProxy: two watches in, commands out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

from scheduler_extender.load_balancer.balancer import Balancer, Refused
from scheduler_extender.load_balancer.endpoints import COMBOFUNC, Endpoints, Function
from scheduler_extender.load_balancer.metrics import BalancerMetrics
from scheduler_extender.load_balancer.settings import Settings
from surgekit import health_server
from surgekit.haproxy_runtime import Runtime
from surgekit.kube import Kube
from surgekit.watch import Watch

__all__ = ["Controller", "run"]

log = structlog.get_logger(__name__)

Json = dict[str, Any]
_POLL_S = 0.25  # how soon a new HAProxy is noticed; it holds requests until then
_PAUSE_S = 1.0  # after a round that failed
_STUCK_S = 60.0


class _Consumer:
    """One of the two collections; called from its watch's thread."""

    def __init__(
        self,
        lock: threading.Lock,
        changed: threading.Event,
        replace: Callable[[list[Json]], None],
        apply: Callable[[str, Json], bool],
    ) -> None:
        self._lock, self._changed, self._replace, self._apply = lock, changed, replace, apply

    def replace(self, objects: list[Json], arrival_s: float) -> None:  # noqa: ARG002
        with self._lock:
            self._replace(objects)
        self._changed.set()

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:  # noqa: ARG002
        with self._lock:
            changed = self._apply(kind, obj)
        if changed:
            self._changed.set()


class Controller:
    def __init__(self, settings: Settings, kube: Kube) -> None:
        haproxy = Runtime(settings.control)
        self._balancer = Balancer(settings, haproxy)
        self._endpoints, self._lock = Endpoints(), threading.Lock()
        self._changed, self._stopping = threading.Event(), threading.Event()
        state = self._endpoints
        slices = _Consumer(self._lock, self._changed, state.replace_slices, state.apply_slice)
        pods = _Consumer(self._lock, self._changed, state.replace_pods, state.apply_pod)
        self._watches = [
            Watch(kube, "/apis/discovery.k8s.io/v1/endpointslices", slices, labelSelector=COMBOFUNC),
            Watch(kube, "/api/v1/pods", pods, labelSelector=COMBOFUNC),
        ]
        self.metrics = BalancerMetrics(self._balancer, haproxy, lambda: self._age_s(time.monotonic()))
        self._thread = threading.Thread(target=self._run, name="balancer", daemon=True)
        self._last_round_s = time.monotonic()
        self._complaints: dict[tuple[str, Function], int] = {}
        self._missing = "HAProxy was not told of the pods yet"

    def start(self) -> None:
        for watch in self._watches:
            watch.start()
        self._thread.start()

    def stop(self) -> None:
        """HAProxy goes on with what it knows."""
        self._stopping.set()
        self._changed.set()
        for watch in self._watches:
            watch.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    def alive(self, now_s: float) -> bool:
        return self._thread.is_alive() and now_s - self._last_round_s < _STUCK_S

    def not_ready(self, now_s: float) -> str:  # noqa: ARG002
        """Old news from the API server are no reason: pods answer all the same (an age in the metrics)."""
        return self._missing

    def _age_s(self, now_s: float) -> float:
        return max(watch.age_s(now_s) for watch in self._watches)

    def _run(self) -> None:
        sleep_s = 0.0
        while not self._stopping.wait(sleep_s):
            sleep_s = 0.0
            self._last_round_s = time.monotonic()
            changed = self._changed.wait(_POLL_S)
            if not all(watch.synced.is_set() for watch in self._watches):
                sleep_s = 0.05
                continue
            try:
                if changed or self._balancer.is_new():
                    self._changed.clear()
                    self._tell()
                self._missing = ""
            except OSError as error:
                self._failed("unreachable", f"HAProxy does not answer: {error}")
                sleep_s = _POLL_S
            except Refused as error:
                self._failed("refused", f"HAProxy refuses: {error}")
                sleep_s = _PAUSE_S
            except Exception:  # a fault of ours in one round must not be the end of all
                log.exception("round failed")
                self._failed("fault", "the last round failed")
                sleep_s = _PAUSE_S

    def _tell(self) -> None:
        with self._lock:
            functions, unknown = self._endpoints.functions(), self._endpoints.unknown()
        self._balancer.tell(functions)
        self.metrics.unknown.clear()
        for function, count in unknown.items():
            self.metrics.unknown.labels(function.namespace, function.name).set(count)
        self._complain(unknown)

    def _complain(self, unknown: Mapping[Function, int]) -> None:
        """Say once who gets no requests and why."""
        served = self._balancer.served
        found = {
            ("pods without concurrency", function): count for function, count in unknown.items() if count
        }
        found |= {
            ("pods without a slot", f): one.without_slot for f, one in served.items() if one.without_slot
        }
        found |= {("function without a backend", f): 1 for f in unknown if f not in served}
        for (what, function), count in found.items():
            if self._complaints.get((what, function)) != count:
                log.warning(
                    "no requests for some",
                    reason=what, namespace=function.namespace, function=function.name, count=count,
                )  # fmt: skip
        self._complaints = found

    def _failed(self, what: str, why: str) -> None:
        """Nothing of what was to be told is lost: the next round reads what HAProxy knows and goes on."""
        if why != self._missing:
            log.warning("round failed", reason=why)
        self._missing = why
        self.metrics.failures.labels(what).inc()
        self._balancer.forget()
        self._changed.set()


def run(settings: Settings, kubeconfig: Path | None = None) -> None:
    """Drive HAProxy and serve health and metrics until told to stop."""
    health_server.serve(
        lambda: Controller(settings, Kube.connect(kubeconfig)),
        settings.bind,
        "surgekit-balancer",
        settings.log_level,
    )
