"""The balancer as a process beside HAProxy: watches in, commands out."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

import structlog

from function_gateway.backends import Pod, unused
from function_gateway.balancer import Balancer, Refused
from function_gateway.configuration import IDEMPOTENT, NAMESPACES, ONCE
from function_gateway.endpoints import Function
from function_gateway.link import Link
from function_gateway.metrics import BalancerMetrics
from function_gateway.ownership import Ownership
from function_gateway.quotas import Refusals
from function_gateway.settings import Settings
from function_gateway.sources import Sources
from surgekit.haproxy.runtime import Runtime
from surgekit.kube.client import Kube
from surgekit.kube.events import EventRecorder
from surgekit.kube.table import Unreadable
from surgekit.process import controller
from surgekit.process.health_server import serve

__all__ = ["Controller", "run"]

log = structlog.get_logger(__name__)

_POLL_S = 0.25  # how soon a new HAProxy is noticed; it holds requests until then
_HAND_OVER_S = 0.05  # between two looks at the requests of functions that moved away
_LEAVE_S = 8.0  # that this process waits for them at its end; gunicorn gives it 10
_SETTLE_S = 2.0  # that a new replica waits to hear the others
_AGREE_S = 0.01
_PAUSE_S = 1.0  # after a round that failed
_STUCK_S = 60.0
_QUOTAS_S = 5.0  # between two looks at what was refused


class Unsettled(Exception):
    """It is not known yet what other replicas do."""


class Controller(controller.Controller):
    """Everything of one replica. Each drives the HAProxy beside it, so there is no Lease."""

    def __init__(self, settings: Settings, kube: Kube) -> None:
        haproxy = Runtime(settings.control)
        self._balancer = Balancer(settings, haproxy)
        self._changed, self._leaving = threading.Event(), threading.Event()
        events = EventRecorder(kube, "balancer")
        unreadable, self._service_events = Unreadable(events), events.about("v1", "Service")
        self._sources = sources = Sources(kube, settings, unreadable, self._changed.set)
        self._endpoints, self._lock, self._watches = sources.endpoints, sources.lock, sources.watches
        self._settings = settings
        self._ownership: Ownership | None = None
        self._link = Link(
            settings.address, settings.replica_port, settings.forward_port, self._changed.set
        )  # fmt: skip
        self._left: Mapping[str, Mapping[str, int]] = {}
        self._began_s = time.monotonic()
        self.metrics = BalancerMetrics(self._balancer, haproxy)
        self.metrics.registry.register(unreadable)
        self._complaints: dict[tuple[str, Function], int] = {}
        self._haproxy = haproxy
        self._told_without: Set[Function] = frozenset()
        self._refusals, self._next_look_s = Refusals(), 0.0
        quota = settings.connections_per_namespace
        self._quota = f"its quota (connections_per_namespace) is {quota} requests under way"
        self._missing = "HAProxy was not told of the pods yet"
        # Old news from the API server are no reason not to be ready: pods answer all the same.
        super().__init__(
            "balancer",
            self.metrics.registry,
            ages_s=self._ages_s,
            missing=lambda: self._missing,
            events=events,
        )
        for watch in self._watches.values():
            self.run_beside(watch)
        if settings.replicas_service:
            self.run_beside(self._link)
        self.loop("haproxy", self._step, _STUCK_S)

    def _ages_s(self, now_s: float) -> dict[str, float]:
        return {name: watch.age_s(now_s) for name, watch in self._watches.items()}

    def _step(self) -> float:
        changed = self._changed.wait(_HAND_OVER_S if self._left else _POLL_S)
        if not all(watch.synced.is_set() for watch in self._watches.values()):
            return 0.05
        try:
            changed |= self._sources.look()
            if changed or self._left or self._balancer.is_restarted():
                self._changed.clear()
                self._tell()
            self._look_at_quotas()
        except OSError as error:
            self._failed("unreachable", f"HAProxy does not answer: {error}")
            return _POLL_S
        except Unsettled as error:
            self._missing = str(error)
            self._changed.set()
            return _HAND_OVER_S
        except Refused as error:
            self._failed("refused", f"HAProxy refuses: {error}")
            return _PAUSE_S
        except Exception:
            self._failed("fault", "the last step failed")
            raise
        self._missing = ""
        return 0.0

    def _tell(self) -> None:
        with self._lock:
            functions, unknown = self._endpoints.functions(), self._endpoints.unknown()
            overflow = {
                function: IDEMPOTENT if burst.idempotent else ONCE
                for function, burst in self._endpoints.overflow().items()
            }
        if self._settings.replicas_service:
            self._tell_with_others(functions, overflow)
        else:
            self._balancer.sync(functions, overflow)
        self.metrics.unknown.clear()
        for function, count in unknown.items():
            self.metrics.unknown.labels(function.namespace, function.name).set(count)
        self._complain(unknown)

    def _tell_with_others(
        self, functions: Mapping[Function, Sequence[Pod]], overflow: Mapping[Function, str]
    ) -> None:
        """Serve the functions that this replica owns; the others' requests go to their owners."""
        now_s = time.monotonic()
        self._link.list_peers(self._sources.replicas())
        if not self._link.settled and now_s - self._began_s < _SETTLE_S:
            raise Unsettled("other replicas are not heard yet")
        if self._ownership is None:
            # Grows over restarts, so that nobody takes an old answer for a new one.
            self._ownership = Ownership(
                self._settings.address, time.time_ns() // 1000, self._balancer.gives_out
            )
        self._ownership.leaves = self._leaving.is_set()
        said, mute = self._link.heard(now_s)
        by_host = {function.host: function for function in functions}
        move = self._ownership.look(by_host.keys(), said, mute, now_s)
        mine = {
            f: unused(functions[f], move.in_flight.get(host, {}))
            for host, f in by_host.items()
            if host in move.holds
        }
        waits = {by_host[host]: () for host in move.waits}
        elsewhere = {by_host[host]: address for host, address in move.owners.items()}
        may = {function: how for function, how in overflow.items() if function in mine}
        self._balancer.sync({**mine, **waits}, may, elsewhere, self._link.peers)
        self._left = self._balancer.in_flight()
        self._ownership.ready = True
        self._link.publish(self._ownership.statement(self._left))
        if move.waits:
            self._changed.set()  # until the others agree, or patience ends
            time.sleep(_AGREE_S)

    def stop(self) -> None:
        """Hand this replica's functions over first."""
        if self._settings.replicas_service and self._ownership is not None:
            self._leaving.set()
            self._changed.set()
            until_s = time.monotonic() + _LEAVE_S
            while time.monotonic() < until_s and not self._is_handed_over():
                time.sleep(_HAND_OVER_S)
        super().stop()

    def _is_handed_over(self) -> bool:
        assert self._ownership is not None  # noqa: S101  # stop has looked
        return self._ownership.left and not self._left

    def _look_at_quotas(self) -> None:
        """Tell owners: once of each function without a backend, now and then that requests are refused."""
        without, now_s = self._balancer.without_backend, time.monotonic()
        for function in without.keys() - self._told_without:
            self._notify(function, "NoBackend", without[function])
        self._told_without = without.keys()
        if now_s < self._next_look_s:
            return
        self._next_look_s = now_s + _QUOTAS_S
        refused = {name: int(row["gpc0"]) for name, row in self._haproxy.table(NAMESPACES).items()}
        if not (grown := self._refusals.grown(refused, now_s)):
            return
        under_way = {row["pxname"]: int(row["scur"]) for row in self._haproxy.backends()}
        for namespace, more in grown.items():
            functions = [one for one in self._balancer.served.values() if one.function.namespace == namespace]
            if busiest := max(functions, key=lambda one: under_way.get(one.backend, 0), default=None):
                note = f"{more} requests for functions of {namespace} were refused (429): {self._quota}"
                self._notify(busiest.function, "RequestsRefused", note)

    def _notify(self, function: Function, reason: str, note: str) -> None:
        """Post an Event on the Service of a function that is past its share."""
        log.warning("function past its share", reason=reason, namespace=function.namespace,
                    function=function.name, error=note)  # fmt: skip
        with self._lock:
            service = self._endpoints.service(function)
        if service:
            metadata = {"namespace": function.namespace, "name": service[0], "uid": service[1]}
            self._service_events.post(metadata, reason, note, "Warning")

    def _complain(self, unknown: Mapping[Function, int]) -> None:
        """Say once who gets no requests and why."""
        served = self._balancer.served
        found = {
            ("pods without concurrency", function): count for function, count in unknown.items() if count
        }
        found |= {
            ("pods without a slot", f): one.without_slot for f, one in served.items() if one.without_slot
        }
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
    serve(lambda: Controller(settings, Kube.connect(kubeconfig)), settings, "surgekit-balancer")
