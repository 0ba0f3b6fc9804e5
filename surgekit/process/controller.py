"""The shell of every controller: loops that cannot die, one fault policy, health and metrics.

A part brings steps. The shell calls each again and again, in a thread of its own; a step says after how many
seconds it wants to be called next. Steps that act as the leader belong to a `Session`, which is made anew
whenever this replica takes the Lease.

What happens when a step raises:
- The API server refuses or does not answer: log it, count it, back off, try again.
- Anything else is a fault of ours: the same, with a traceback and an Event, and /readyz says it, so the pod's
  Ready condition does. A leader that has failed for `STEP_DOWN_S` gives the Lease to the other replica.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from surgekit.kube.client import ApiError, KubeUnreachable
from surgekit.kube.events import EventRecorder
from surgekit.kube.lease import Lease
from surgekit.kube.watch import overdue
from surgekit.process.back_off import back_off_s

__all__ = ["STEP_DOWN_S", "Controller", "Loop", "Session", "Startable", "Step"]

log = structlog.get_logger(__name__)
Step = Callable[[], float]
STEP_DOWN_S = 60.0
_FIRST_S, _LONGEST_S = 1.0, 60.0  # of the back-off
_NOT_LEADING_S = 0.1  # until the next look at the Lease
_STUCK_S = 120.0  # a step that takes longer will never end: /livez fails, and kubelet restarts the process
_LONGEST_MESSAGE = 300


class Session(Protocol):
    """What a replica does while it leads. It starts from what the API server has."""

    def step(self) -> float:
        """Do what is due; seconds until the next call."""

    def stop(self) -> None: ...


class Startable(Protocol):
    """Something with threads of its own: watches, pools of workers."""

    def start(self) -> object: ...

    def stop(self) -> None: ...


class Loop:
    """Calls a step again and again, whatever it raises."""

    def __init__(self, name: str, step: Step, on_fault: Callable[[Loop, str], None], stuck_s: float) -> None:
        self.name = name
        self.fault = ""  # of the last step; empty when it ended well
        self.faults_total, self.api_failures_total = 0, 0
        self.failing_since_s: float | None = None
        self._step, self._on_fault, self._stuck_s = step, on_fault, stuck_s
        self._failures = 0
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._began_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._began_s = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    def wake(self) -> None:
        """Call the step now. While it backs off it stays asleep."""
        if not self._failures:
            self._wake.set()

    def alive(self, now_s: float) -> bool:
        return self._thread.is_alive() and now_s - self._began_s < self._stuck_s

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            sleep_s = self._call()
            # The time asleep counts as work done: only a step can be stuck.
            while sleep_s > 0 and not self._wake.wait(min(sleep_s, 1.0)):
                sleep_s -= 1.0
                self._began_s = time.monotonic()
            self._began_s = time.monotonic()

    def _call(self) -> float:
        try:
            sleep_s = self._step()
        except (ApiError, KubeUnreachable) as error:
            self.api_failures_total += 1
            log.warning("step failed", loop=self.name, error=str(error))
            return self._back_off("")
        except Exception as error:  # a fault of ours must not be the end of the loop
            self.faults_total += 1
            log.exception("step failed", loop=self.name)
            return self._back_off(f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE])
        self.fault, self.failing_since_s, self._failures = "", None, 0
        return sleep_s

    def _back_off(self, fault: str) -> float:
        self._failures += 1
        self.fault = fault
        if fault and self.failing_since_s is None:
            self.failing_since_s = time.monotonic()
        if fault:
            try:
                self._on_fault(self, fault)
            except Exception:  # reporting a fault must not end the loop either
                log.exception("fault not reported", loop=self.name)
        return back_off_s(self._failures, _FIRST_S, _LONGEST_S)


class _LeaderStep:
    """Has a Session while this replica may act, and only then."""

    def __init__(self, lease: Lease, hindrance: Callable[[float], str], make: Callable[[], Session]) -> None:
        self._lease, self._hindrance, self._make = lease, hindrance, make
        self._session: Session | None = None
        self._term = -1

    def __call__(self) -> float:
        if not self._lease.held or self._hindrance(time.monotonic()):
            self.end()
            return _NOT_LEADING_S
        if self._term != self._lease.term:  # another replica may have acted meanwhile
            self.end()
            self._term = self._lease.term
        if self._session is None:
            self._session = self._make()
        return self._session.step()

    def end(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            session.stop()


class Controller(Collector):
    """One replica of a part: everything that runs in its process.

    A part is a subclass that names its loops. `ages_s` tells how old the picture of each watch is; `missing`
    says what else a part waits for before it is ready. Without a Lease every replica acts. `events` is the
    process's one recorder: it starts first and stops last, so that it posts what the others say.
    """

    def __init__(
        self,
        name: str,
        registry: CollectorRegistry,
        *,
        ages_s: Callable[[float], Mapping[str, float]],
        max_input_age_s: float = math.inf,
        missing: Callable[[], str] = lambda: "",
        events: EventRecorder,
        lease: Lease | None = None,
    ) -> None:
        self.name, self.registry, self.lease = name, registry, lease
        self._ages_s, self._max_input_age_s, self._waits_for = ages_s, max_input_age_s, missing
        self._events, self._lease_events = events, events.about("coordination.k8s.io/v1", "Lease")
        self._loops: list[Loop] = []
        self._leader_steps: list[_LeaderStep] = []
        self._beside: list[tuple[Startable, Callable[[], bool]]] = []
        registry.register(self)

    # --- what a part brings ---

    def loop(self, name: str, step: Step, stuck_s: float = _STUCK_S) -> Loop:
        """Run `step` in every replica."""
        self._loops.append(loop := Loop(name, step, self._on_fault, stuck_s))
        return loop

    def lead(self, name: str, make: Callable[[], Session], stuck_s: float = _STUCK_S) -> Loop:
        """Run the steps of a Session while this replica holds the Lease and its watches are fresh."""
        if self.lease is None:
            raise ValueError(f"{self.name}: there is no Lease to lead with")
        self._leader_steps.append(step := _LeaderStep(self.lease, self.stale_input, make))
        return self.loop(name, step, stuck_s)

    def run_beside(self, startable: Startable, alive: Callable[[], bool] = lambda: True) -> None:
        """Start and stop it with the loops; `alive` tells whether its threads do their work."""
        self._beside.append((startable, alive))

    # --- for the process ---

    def start(self) -> None:
        self._events.start()
        for startable, _ in self._beside:
            startable.start()
        if self.lease is not None:
            self.lease.start()
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        for loop in self._loops:
            loop.stop()
        for step in self._leader_steps:
            step.end()
        for startable, _ in self._beside:
            startable.stop()
        if self.lease is not None:
            self.lease.stop()
        self._events.stop()

    @property
    def leads(self) -> bool:
        return self.lease is None or self.lease.held

    def alive(self, now_s: float) -> bool:
        threads = all(loop.alive(now_s) for loop in self._loops) and all(alive() for _, alive in self._beside)
        return threads and (self.lease is None or self.lease.alive)

    def stale_input(self, now_s: float) -> str:
        """Which picture of the cluster is too old to act on; empty when none is."""
        return overdue(self._ages_s(now_s), self._max_input_age_s)

    def not_ready(self, now_s: float) -> str:
        """What is missing or fails; empty when ready."""
        failing = (f"{loop.name} fails: {loop.fault}" for loop in self._loops if loop.fault)
        return self.stale_input(now_s) or next(failing, "") or self._waits_for()

    def _on_fault(self, loop: Loop, fault: str) -> None:
        lease, now_s = self.lease, time.monotonic()
        if lease is None or not lease.held:
            return
        self._lease_events.post(lease.metadata, "Failing", f"{self.name}, {loop.name}: {fault}", "Warning")
        if loop.failing_since_s is not None and now_s - loop.failing_since_s >= STEP_DOWN_S:
            log.error("leader steps down", lease=lease.metadata["name"], loop=loop.name, error=fault)
            loop.failing_since_s = None
            lease.step_down()

    # --- for Prometheus ---

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        prefix, now_s = f"surgekit_{self.name}", time.monotonic()
        if self.lease is not None:
            yield GaugeMetricFamily(
                f"{prefix}_leader", "1 in the replica that acts", value=float(self.lease.held)
            )
        ages = GaugeMetricFamily(
            f"{prefix}_input_age_seconds",
            "Seconds since the API server last confirmed the picture",
            labels=["source"],
        )
        for source, age_s in self._ages_s(now_s).items():
            ages.add_metric([source], age_s)
        failures = CounterMetricFamily(
            f"{prefix}_step_failures",
            "Steps that failed: by a fault of ours, or because the API server refused or did not answer",
            labels=["loop", "reason"],
        )
        for loop in self._loops:
            failures.add_metric([loop.name, "fault"], loop.faults_total)
            failures.add_metric([loop.name, "api_server"], loop.api_failures_total)
        yield from (ages, failures)
