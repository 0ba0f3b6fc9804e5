"""Each function's traffic, from all placements, over seconds to an hour. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from burst_plane.burst_function import BurstFunction, Variant
from burst_plane.filter import InterArrivals, counts, soon
from burst_plane.knative.route import Route
from burst_plane.knative.statistics import Excess
from burst_plane.preparing import Bursts
from burst_plane.scaling import Concurrency, Parameters, Scaler
from burst_plane.wire.messages import FunctionTraffic
from burst_plane.worth import idle_s

__all__ = ["Account", "Totals", "View", "excess_of", "parameters_of"]

_LATE_S = 3.0  # a placement that is silent for so long has no requests that count
_WINDOW_S = 60.0  # Knative's stable window
_LEAST_WINDOW_S = 6.0  # the shortest that Knative allows
_MINUTE_S, _HOUR_S = 60.0, 3600.0


def parameters_of(function: BurstFunction, worth_s: float | None = None) -> Parameters:
    """A keepalive below the window would mean nothing: the window is no longer than it. `worth_s`: how long
    an idle instance is worth its memory, instead of the spec's keepalive."""
    keepalive_s = function.keepalive_s if worth_s is None else worth_s
    # The scale of a ComboFunc counts requests at once, that of everything else pods.
    concurrency = 1 if function.target.kind == "ComboFunc" else function.concurrency
    return Parameters(
        concurrency=float(concurrency),
        target_share=function.target_percentage / 100.0,
        window_s=min(_WINDOW_S, max(keepalive_s, _LEAST_WINDOW_S)),
        keepalive_s=keepalive_s,
        priced=worth_s is not None,
        min_replicas=function.min_replicas,
        max_replicas=function.max_replicas,
    )


def excess_of(route: Route, account: Account, now_s: float) -> Excess:
    """What no queue-proxy of the revision has seen in the second of the last tick: requests that wait, and
    those in emergency instances that count. Requests that wait come to a pod later, which counts them; until
    there is a pod, they are counted here, so that a revision that scales by requests leaves zero."""
    if not account.heard(now_s):
        return Excess(route.namespace, route.revision, 0.0, 0.0)
    now = account.concurrency(now_s)
    requests = account.started + (0 if route.ready else account.waited)
    return Excess(route.namespace, route.revision, now.queued + now.counted, requests)


@dataclass(frozen=True, slots=True)
class Totals:
    arrivals: int = 0
    started: int = 0
    hits: int = 0
    refused: int = 0
    failed: int = 0

    def plus(self, seen: FunctionTraffic) -> Totals:
        return Totals(
            self.arrivals + seen.arrivals,
            self.started + seen.started,
            self.hits + seen.hits,
            self.refused + seen.refused,
            self.failed + seen.failed,
        )


class _Recent:
    """Sums of the last so many seconds, by slots."""

    def __init__(self, slot_s: float, window_s: float) -> None:
        self._slot_s, self._window_s = slot_s, window_s
        self._slots: deque[tuple[int, Totals]] = deque()

    def add(self, seen: FunctionTraffic, now_s: float) -> None:
        slot = math.floor(now_s / self._slot_s)
        if not self._slots or self._slots[-1][0] < slot:
            self._slots.append((slot, Totals()))
        number, before = self._slots[-1]
        self._slots[-1] = (number, before.plus(seen))
        self._forget(now_s)

    def total(self, what: Callable[[Totals], int], now_s: float) -> int:
        self._forget(now_s)
        return sum(what(of) for _, of in self._slots)

    def _forget(self, now_s: float) -> None:
        oldest = math.floor((now_s - self._window_s) / self._slot_s)
        while self._slots and self._slots[0][0] <= oldest:
            self._slots.popleft()


@dataclass(frozen=True, slots=True)
class View:
    """One function's traffic, for its status."""

    arrivals_per_s: float  # over the last minute
    starts_per_s: float
    in_regular: float  # now
    queued: float
    in_emergency: float
    counted: float
    share: float  # of the last hour's requests, served by emergency instances
    totals: Totals  # since this replica leads
    percentile_s: float | None
    counts: bool


class Account:
    """One function."""

    def __init__(self, function: BurstFunction) -> None:
        self.function = function
        self.history = InterArrivals()
        self.bursts = Bursts()
        self.scaler = Scaler(parameters_of(function))
        self.totals = Totals()
        self._minute, self._hour = _Recent(1.0, _MINUTE_S), _Recent(_MINUTE_S, _HOUR_S)
        self._latest: dict[str, tuple[FunctionTraffic, float]] = {}  # by placement
        self._memory_bytes = 0  # of an instance; 0: not known
        self._busy_s, self._requests = 0.0, 0  # ever
        self._new, self._excess = 0, 0  # requests and emergency starts since the last tick
        # Of the last tick: requests that waited for a pod or found none, and starts that count.
        self.waited, self.started = 0, 0

    def follow(self, function: BurstFunction) -> None:
        """Its spec changed; what was seen stays."""
        self.function = function
        self._price()

    def weigh(self, memory_bytes: int) -> None:
        """What an instance takes."""
        self._memory_bytes = memory_bytes

    @property
    def keepalive_s(self) -> float:
        """How long a regular instance may be idle."""
        return self.scaler.parameters.keepalive_s

    @property
    def run_s(self) -> float:
        """How long a request runs in the mean; 0: none was seen."""
        return self._busy_s / self._requests if self._requests else 0.0

    def _price(self) -> None:
        """ComboFunc has sizes and a keep time of its own, and Knative its own autoscaler."""
        function = self.function
        others = function.target.kind == "ComboFunc" or function.is_knative
        priced = function.variant is Variant.BEST and self._memory_bytes > 0 and not others
        worth_s = idle_s(function.keepalive_s, self._memory_bytes, self.run_s) if priced else None
        self.scaler.parameters = parameters_of(function, worth_s)

    def take(self, placement: str, seen: FunctionTraffic, now_s: float) -> None:
        self._latest[placement] = (seen, now_s)
        self._new += seen.arrivals
        self._excess += seen.started
        self.totals = self.totals.plus(seen)
        self._minute.add(seen, now_s)
        self._hour.add(seen, now_s)
        self.history.observe(seen.arrivals, now_s)
        self.bursts.note(seen.started, now_s)

    def tick(self, now_s: float) -> None:
        """Once a second: what all placements see together goes into the window."""
        new, excess, self._new, self._excess = self._new, self._excess, 0, 0
        self.waited, self.started = max(new - excess, 0), excess if self.counts(now_s) else 0
        if not self.heard(now_s):
            return
        latest = self._drop_late(now_s)
        self._busy_s += sum(t.in_regular + t.in_emergency for t in latest)
        self._requests += new
        self._price()
        if not self.counts(now_s):
            new = max(new - excess, 0)
        now = replace(self.concurrency(now_s), arrivals=new, soon=self.expects(now_s))
        self.scaler.record(now, now_s)

    def expects(self, now_s: float) -> bool:
        """Whether one instance should be there for the next request."""
        return self.scaler.parameters.priced and soon(self.history, self.keepalive_s, now_s)

    def heard(self, now_s: float) -> bool:
        """Whether any placement reports it now."""
        return bool(self._drop_late(now_s))

    def concurrency(self, now_s: float) -> Concurrency:
        latest = self._drop_late(now_s)
        emergency = sum(t.in_emergency for t in latest)
        return Concurrency(
            sum(t.in_regular for t in latest),
            sum(t.queued for t in latest),
            emergency if self.counts(now_s) else 0.0,
        )

    def counts(self, now_s: float) -> bool:
        return counts(self.history, self.keepalive_s, self.function.threshold_percentile, now_s)

    def view(self, now_s: float) -> View:
        latest, now = self._drop_late(now_s), self.concurrency(now_s)
        arrivals = self._hour.total(lambda t: t.arrivals, now_s)
        return View(
            self._minute.total(lambda t: t.arrivals, now_s) / _MINUTE_S,
            self._minute.total(lambda t: t.started, now_s) / _MINUTE_S,
            now.in_regular,
            now.queued,
            sum(t.in_emergency for t in latest),
            now.counted,
            self._hour.total(lambda t: t.started, now_s) / arrivals if arrivals else 0.0,
            self.totals,
            self.history.percentile_s(self.function.threshold_percentile, now_s),
            self.counts(now_s),
        )

    def _drop_late(self, now_s: float) -> list[FunctionTraffic]:
        self._latest = {p: (t, at_s) for p, (t, at_s) in self._latest.items() if now_s - at_s < _LATE_S}
        return [traffic for traffic, _ in self._latest.values()]
