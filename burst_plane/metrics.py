"""Metrics of the controller. Functions are labels: each has an object."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from burst_plane.conditions import REASONS, Readiness
from burst_plane.model import Function
from burst_plane.traffic import View

__all__ = ["ControllerMetrics"]

_FUNCTION = ["namespace", "function"]


class ControllerMetrics:
    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def gauge(name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        def counter(name: str, text: str, label: str) -> Counter:
            return Counter(name, text, [label], registry=registry)

        self._functions = gauge(
            "surgekit_burst_controller_functions",
            "BurstFunctions by the reason of their condition Overflow",
            ["reason"],
        )
        self._eligible = gauge(
            "surgekit_burst_controller_eligibility",
            "BurstFunctions by the reason of their condition Eligible",
            ["reason"],
        )
        # What scaling.via: metric is for: an HPA, a KneePolicy or a ComboFunc's collector reads it.
        self._concurrency = gauge(
            "surgekit_burst_controller_concurrency",
            "Requests at once that regular instances should take: in them, queued, and what the filter counts"
            " of those in emergency instances; the mean over the stable window",
            _FUNCTION,
        )
        self._requests = gauge(
            "surgekit_burst_controller_requests_in_flight",
            "Requests at once, by track: regular, queued, emergency",
            [*_FUNCTION, "track"],
        )
        self._share = gauge(
            "surgekit_burst_controller_emergency_share",
            "Share of the last hour's requests that emergency instances served",
            _FUNCTION,
        )
        self._prepared = gauge(
            "surgekit_burst_controller_prepared_instances",
            "Instances that are created or frozen, and not in use",
            ["what"],
        )
        self._hits = gauge(
            "surgekit_burst_controller_hit_share",
            "Share of emergency starts from a prepared instance, since this replica leads",
        )
        self.scalings = counter(
            "surgekit_burst_controller_scalings",
            "Numbers of regular instances that were set: up, down, failed",
            "what",
        )
        self.resolutions = counter(
            "surgekit_burst_controller_resolutions",
            "Pod templates looked at, by the reason of the condition Eligible",
            "reason",
        )
        self.failures = counter(
            "surgekit_burst_controller_failures", "Failures of: status, resolve, register", "what"
        )
        self.autoscaler_messages = counter(
            "surgekit_burst_controller_autoscaler_messages",
            "Messages to Knative's autoscaler about excess traffic: sent, failed",
            "what",
        )
        self._shown: set[tuple[str, str]] = set()

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """A gauge that is read when Prometheus asks."""
        Gauge(f"surgekit_burst_controller_{name}", text, registry=self.registry).set_function(value)

    def show(self, functions: Iterable[tuple[Function, View, float | None]]) -> None:
        """Each function's traffic; the last is the window's average. Functions that are gone are dropped."""
        shown, started, hits = set(), 0, 0
        for function, view, average in functions:
            labels = (function.namespace, function.name)
            shown.add(labels)
            if average is not None:  # a missing metric is missing, never 0
                self._concurrency.labels(*labels).set(average)
            for track, value in (
                ("regular", view.in_regular), ("queued", view.queued), ("emergency", view.in_emergency),
            ):  # fmt: skip
                self._requests.labels(*labels, track).set(value)
            self._share.labels(*labels).set(view.share)
            started, hits = started + view.totals.started, hits + view.totals.hits
            if average is None and labels in self._shown:
                self._drop(self._concurrency, *labels)
        for labels in self._shown - shown:
            self._drop(self._concurrency, *labels)
            self._drop(self._share, *labels)
            for track in ("regular", "queued", "emergency"):
                self._drop(self._requests, *labels, track)
        self._shown = shown
        if started:
            self._hits.set(hits / started)

    def show_conditions(self, said: Iterable[tuple[str, str]], readiness: Iterable[Readiness]) -> None:
        """Reasons of Eligible and Overflow, and what agents have prepared."""
        pairs, ready = list(said), [p for of in readiness for _, p in of.nodes]
        for gauge, reasons, type_ in (
            (self._eligible, [eligible for eligible, _ in pairs], "Eligible"),
            (self._functions, [overflow for _, overflow in pairs], "Overflow"),
        ):
            tally = Tally(reasons)
            for reason in REASONS[type_]:
                gauge.labels(reason).set(tally[reason])
        self._prepared.labels("created").set(sum(p.created for p in ready))
        self._prepared.labels("frozen").set(sum(p.frozen for p in ready))

    @staticmethod
    def _drop(gauge: Gauge, *labels: str) -> None:
        try:
            gauge.remove(*labels)
        except KeyError:
            return
