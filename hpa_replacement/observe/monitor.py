"""The performance monitor (paper, III-A.1): measures each function over the last sampling interval.

All functions with the same preset and window share their queries, so 1,000 functions cost as many queries as
one. A value that is missing, stale, NaN or covers only part of the window becomes a reason, never a number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import Template

from hpa_replacement.observe.presets import CPU, PRESETS
from surgekit.prometheus.client import Labels, QueryBatch, QueryFailed, duration

__all__ = ["MetricsRequest", "Reading", "read"]

# The share of its scrapes a window must hold: one may be late at either end.
_SCRAPES_SHARE = 0.75


@dataclass(frozen=True)
class MetricsRequest:
    """A function, the window to measure, and where its metrics are."""

    name: str  # the policy: namespace/name
    namespace: str
    function: str
    target: str
    window_s: float
    pods: frozenset[str]  # the Ready ones
    preset: str = "http"
    queries: Mapping[str, str] | None = None  # the policy's own PromQL: throughput, latency, errors, cpu
    cpu: bool = True  # whether to measure CPU usage
    shared: bool = True  # whether functions of other namespaces use the same queries


@dataclass(frozen=True)
class Reading:
    throughput_per_s: float  # successful
    errors_per_s: float
    latency_s: float | None  # mean; None when there were no requests
    cpu_cores: float | None  # of all replicas together; None: not measured


class _NoValue(Exception):
    """Why one function has no value."""


def read(
    batch: QueryBatch, requests: Iterable[MetricsRequest], scrape_interval_s: float
) -> dict[str, Reading | str]:
    """Measure each policy's function over the window that ends at the batch's moment; a text says why not."""
    answers = _Answers(batch)
    found: dict[str, Reading | str] = {}
    for one in requests:
        try:
            found[one.name] = _reading(answers, one, scrape_interval_s)
        except (_NoValue, QueryFailed) as error:
            found[one.name] = str(error)
    return found


class _Answers:
    """Fills windows and names into queries, and sends each query once."""

    def __init__(self, batch: QueryBatch) -> None:
        self._batch = batch
        self._cores: dict[float, Mapping[str, Mapping[str, float]]] = {}

    def series(self, query: str, window_s: float) -> Mapping[Labels, float]:
        return self._batch.series(Template(query).safe_substitute(window=duration(window_s)))

    def own(self, query: str, one: MetricsRequest) -> Mapping[Labels, float]:
        """The answer to a query of the policy's own."""
        filled = {"namespace": one.namespace, "function": one.function, "target": one.target}
        text = Template(query).safe_substitute(filled, window=duration(one.window_s))
        return self._batch.own(text, one.namespace)

    def cores(self, namespace: str, window_s: float) -> Mapping[str, float]:
        """Cores used by each pod of a namespace."""
        if window_s not in self._cores:
            by_namespace: dict[str, dict[str, float]] = defaultdict(dict)
            for labels, value in self.series(CPU, window_s).items():
                named = dict(labels)
                by_namespace[named.get("namespace", "")][named.get("pod", "")] = value
            self._cores[window_s] = by_namespace
        return self._cores[window_s].get(namespace, {})


def _reading(answers: _Answers, one: MetricsRequest, scrape_interval_s: float) -> Reading:
    preset, own = PRESETS[one.preset], one.queries or {}
    labels: Labels = frozenset(preset.key(one.namespace, one.function).items())

    def value(what: str, query: str) -> float:
        if what in own:
            return _single(answers, one, what, own[what])
        number = answers.series(query, one.window_s).get(labels)
        if number is None:
            named = ", ".join(f'{k}="{v}"' for k, v in sorted(labels))
            raise _NoValue(f"no {what} of {{{named}}} in the last {one.window_s:g} s")
        return number

    if not {"throughput", "errors", "latency"} <= set(own):
        _check_coverage(answers, one, labels, scrape_interval_s)
    throughput, errors = value("throughput", preset.throughput), value("errors", preset.errors)
    idle = throughput == 0 and errors == 0
    latency = None if idle else value("latency", preset.latency)
    return Reading(throughput, errors, latency, _cpu(answers, one, own))


def _check_coverage(answers: _Answers, one: MetricsRequest, labels: Labels, scrape_interval_s: float) -> None:
    expected = one.window_s / scrape_interval_s
    seen = answers.series(PRESETS[one.preset].samples, one.window_s).get(labels, 0.0)
    if seen and seen < _SCRAPES_SHARE * expected:
        raise _NoValue(f"{seen:.0f} of about {expected:.0f} scrapes in the last {one.window_s:g} s")


def _single(answers: _Answers, one: MetricsRequest, what: str, query: str) -> float:
    series = answers.own(query, one)
    if len(series) != 1:
        raise _NoValue(f"metrics.queries.{what} gives {len(series)} series with a value, not one")
    return next(iter(series.values()))


def _cpu(answers: _Answers, one: MetricsRequest, own: Mapping[str, str]) -> float | None:
    if not one.cpu:
        return None
    if "cpu" in own:
        return _single(answers, one, "cpu", own["cpu"])
    cores = answers.cores(one.namespace, one.window_s)
    if missing := sorted(one.pods - cores.keys()):
        raise _NoValue(f"no CPU usage of {len(missing)} of {len(one.pods)} pods, {missing[0]} among them")
    return sum(cores[pod] for pod in one.pods)
