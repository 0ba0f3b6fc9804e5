"""Metrics of functions and of the balancer. Each scrape reads HAProxy's current statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from function_gateway.balancer import Balancer, Served
from function_gateway.configuration import NAMESPACES
from surgekit.haproxy.runtime import Runtime

__all__ = ["BalancerMetrics"]

_LABELS = ("namespace", "function")


class BalancerMetrics:
    def __init__(self, balancer: Balancer, haproxy: Runtime) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Functions(balancer, haproxy))
        self.unknown = Gauge(
            "surgekit_balancer_pods_without_concurrency",
            "Ready pods that get no requests because they do not say how many they take",
            _LABELS,
            registry=self.registry,
        )
        self.failures = prometheus_client.Counter(
            "surgekit_balancer_failures", "Rounds that failed: unreachable, refused or fault", ["what"],
            registry=self.registry,
        )  # fmt: skip


class _Functions(Collector):
    def __init__(self, balancer: Balancer, haproxy: Runtime) -> None:
        self._balancer, self._haproxy = balancer, haproxy

    def describe(self) -> list[Metric]:
        return []  # otherwise the registry would call HAProxy at registration

    def collect(self) -> Iterator[Metric]:
        starts = CounterMetricFamily("surgekit_balancer_haproxy_starts", "HAProxy processes that were synced")
        starts.add_metric((), self._balancer.starts)
        up = GaugeMetricFamily("surgekit_balancer_haproxy_up", "1 while HAProxy answers")
        without = GaugeMetricFamily(
            "surgekit_balancer_functions_without_backend",
            "Functions past their namespace's share of HAProxy's backends",
            labels=["namespace"],
        )
        over = Counter(function.namespace for function in self._balancer.without_backend)
        for namespace, count in over.items():
            without.add_metric([namespace], count)
        yield without
        try:
            rows = {row["pxname"]: row for row in self._haproxy.backends()}
            namespaces = self._haproxy.table(NAMESPACES)
        except OSError:
            up.add_metric((), 0)
            yield from (starts, up)  # no series of functions: unknown is not 0
            return
        up.add_metric((), 1)
        yield from (starts, up, *_families(self._balancer.served.values(), rows), *_quotas(namespaces))


def _quotas(namespaces: Mapping[str, Mapping[str, str]]) -> list[Metric]:
    requests = GaugeMetricFamily(
        "surgekit_balancer_namespace_requests",
        "Requests under way, queued ones included",
        labels=["namespace"],
    )
    refused = CounterMetricFamily(
        "surgekit_balancer_namespace_refused", "Requests past their namespace's quota", labels=["namespace"]
    )
    for namespace, row in namespaces.items():
        requests.add_metric([namespace], int(row["conn_cur"]))
        refused.add_metric([namespace], int(row["gpc0"]))
    return [requests, refused]


def _families(functions: Iterable[Served], rows: Mapping[str, Mapping[str, str]]) -> list[Metric]:
    in_flight = GaugeMetricFamily("surgekit_function_in_flight", "Requests in pods", labels=_LABELS)
    queued = GaugeMetricFamily("surgekit_function_queued", "Requests waiting for a pod", labels=_LABELS)
    pods = GaugeMetricFamily("surgekit_function_pods", "Pods that take requests", labels=_LABELS)
    capacity = GaugeMetricFamily(
        "surgekit_function_capacity", "Requests that its pods take at once", labels=_LABELS
    )
    without = GaugeMetricFamily(
        "surgekit_balancer_pods_without_slot",
        "Pods that get no requests because all slots are in use",
        labels=_LABELS,
    )
    answers = CounterMetricFamily(
        "surgekit_function_responses", "Responses by status class", labels=(*_LABELS, "code")
    )
    unserved = CounterMetricFamily(
        "surgekit_function_unserved", "Requests that got no pod in time, or none that accepted them",
        labels=_LABELS,
    )  # fmt: skip
    for one in functions:
        labels, row = (one.function.namespace, one.function.name), rows.get(one.backend)
        pods.add_metric(labels, one.pods)
        capacity.add_metric(labels, one.capacity)
        without.add_metric(labels, one.without_slot)
        if row is None:
            continue
        waiting = in_backend = int(row["scur"])
        if one.pods:  # without pods, all requests wait in the Lua action, outside of HAProxy's queue
            waiting = min(int(row["qcur"]), in_backend)
        in_flight.add_metric(labels, in_backend - waiting)
        queued.add_metric(labels, waiting)
        # Denied: no pod was there before the time-out.
        unserved.add_metric(labels, int(row["econ"]) + int(row["dreq"]))
        for digit in "12345":
            answers.add_metric((*labels, f"{digit}xx"), int(row[f"hrsp_{digit}xx"]))
    return [in_flight, queued, pods, capacity, without, answers, unserved]
