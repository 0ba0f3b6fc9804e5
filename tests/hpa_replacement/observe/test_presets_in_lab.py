"""Each preset's queries, put to a real Prometheus that scrapes what such a gateway exports."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest
import requests
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from hpa_replacement.observe.monitor import MetricsRequest, Reading, read
from hpa_replacement.observe.presets import PRESETS
from kwok import prometheus
from kwok.binaries import PROMETHEUS, Binaries
from kwok.errors import LabError
from kwok.lab import Lab
from surgekit.prometheus.client import Prometheus, QueryBatch
from surgekit.prometheus.promql import confined

pytestmark = pytest.mark.lab

SCRAPE_S, WINDOW_S = 1.0, 6.0
OK_PER_S, FAILED_PER_S, LATENCY_S = 10.0, 2.0, 0.5
TIMEOUT_S = 20.0  # what failed waited so long
CORES = {"web-0": 0.15, "web-1": 0.05}
FUNCTION = {"openfaas": "web", "http": "web", "knative": "web-00001", "surgekit": "web"}
IDLE = {"openfaas": "idle", "http": "idle", "surgekit": "idle", "knative": "unused-00001"}


class Exporter:
    """Counters that grow evenly with time, so that any window has the same rate; `share` of the load."""

    def __init__(self, share: float, gateways: bool) -> None:
        self._share, self._gateways, self._began_s = share, gateways, time.time()

    def collect(self) -> Iterator[Metric]:
        passed_s = time.time() - self._began_s
        if self._gateways:
            yield from self._openfaas(passed_s)
            yield from self._http(passed_s)
            yield from self._surgekit(passed_s)
            yield self._cpu(passed_s)
        yield from self._knative(passed_s * self._share)

    def _openfaas(self, passed_s: float) -> Iterator[Metric]:
        total = CounterMetricFamily("gateway_function_invocation", "", labels=["function_name", "code"])
        seconds = SummaryMetricFamily("gateway_functions_seconds", "", labels=["function_name", "code"])
        for code, rate in (("200", OK_PER_S), ("500", FAILED_PER_S)):
            count = rate * passed_s
            total.add_metric(["web.shop", code], count)
            _took(seconds, ["web.shop", code], count, LATENCY_S if code == "200" else TIMEOUT_S)
        total.add_metric(["idle.shop", "200"], 7)
        seconds.add_metric(["idle.shop", "200"], 7, 3.5)
        total.add_metric(["web.bank", "200"], 99 * passed_s)  # another's of the same name
        yield from (total, seconds)

    def _http(self, passed_s: float) -> Iterator[Metric]:
        total = CounterMetricFamily("http_requests", "", labels=["namespace", "service", "pod", "code"])
        seconds = SummaryMetricFamily(
            "http_request_duration_seconds", "", labels=["namespace", "service", "pod"]
        )
        for pod in ("web-0", "web-1"):  # each has half
            for code, rate in (("200", OK_PER_S / 2), ("302", OK_PER_S / 2), ("503", FAILED_PER_S)):
                total.add_metric(["shop", "web", pod, code], rate * passed_s / 2)
            count = (OK_PER_S + FAILED_PER_S) * passed_s / 2
            _took(seconds, ["shop", "web", pod], count)
        total.add_metric(["shop", "idle", "idle-0", "200"], 7)
        seconds.add_metric(["shop", "idle", "idle-0"], 7, 3.5)
        yield from (total, seconds)

    def _surgekit(self, passed_s: float) -> Iterator[Metric]:
        """The load balancer's: no latencies, but what is in it; a third of that waits."""
        labels = ["namespace", "function"]
        total = CounterMetricFamily("surgekit_function_responses", "", labels=[*labels, "code"])
        in_flight = GaugeMetricFamily("surgekit_function_in_flight", "", labels=labels)
        queued = GaugeMetricFamily("surgekit_function_queued", "", labels=labels)
        for code, rate in (
            ("2xx", OK_PER_S),
            ("3xx", 0.0),
            ("4xx", FAILED_PER_S / 2),
            ("5xx", FAILED_PER_S / 2),
        ):
            total.add_metric(["shop", "web", code], rate * passed_s)
            total.add_metric(["shop", "idle", code], 7)
        inside = (OK_PER_S + FAILED_PER_S) * LATENCY_S
        for function, load in (("web", inside), ("idle", 0.0)):
            in_flight.add_metric(["shop", function], load * 2 / 3)
            queued.add_metric(["shop", function], load / 3)
        yield from (total, in_flight, queued)

    def _knative(self, passed_s: float) -> Iterator[Metric]:
        """A queue-proxy's: its revision is in target_info only."""
        name = "http_server_request_duration_seconds"
        seconds = SummaryMetricFamily(name, "", labels=["http_response_status_code"])
        for code, rate in (("200", OK_PER_S), ("500", FAILED_PER_S)):
            _took(seconds, [code], rate * passed_s, LATENCY_S if code == "200" else TIMEOUT_S)
        info = GaugeMetricFamily("target_info", "", labels=["k8s_namespace_name", "kn_revision_name"])
        info.add_metric(["shop", "web-00001"], 1)
        yield from (seconds, info)

    def _cpu(self, passed_s: float) -> Metric:
        used = CounterMetricFamily(
            "container_cpu_usage_seconds", "", labels=["namespace", "pod", "container"]
        )
        for pod, cores in CORES.items():
            used.add_metric(["shop", pod, "c"], cores * passed_s)
            used.add_metric(["shop", pod, ""], cores * passed_s)  # the pod's cgroup: the same again
        return used


class UnusedQueueProxy:
    """It has answered no request yet."""

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("target_info", "", labels=["k8s_namespace_name", "kn_revision_name"])
        info.add_metric(["shop", IDLE["knative"]], 1)
        yield info


def _took(seconds: SummaryMetricFamily, labels: list[str], count: float, each_s: float = LATENCY_S) -> None:
    """Fractions of requests, so that the rate is even."""
    seconds.add_metric(labels, count, count * each_s)  # type: ignore[arg-type]  # wants whole ones


def serve(exporter: Exporter | UnusedQueueProxy) -> tuple[int, Any]:
    registry = CollectorRegistry()
    registry.register(exporter)
    server, thread = start_http_server(0, "127.0.0.1", registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_port, stop


@pytest.fixture(scope="module")
def asked(built: Callable[..., Binaries], lab: Lab) -> Iterator[Any]:
    """Puts questions to a Prometheus that has scraped for longer than a window."""
    built(PROMETHEUS)
    # A revision's two pods: one has three quarters of its load.
    exporters = [serve(Exporter(0.75, True)), serve(Exporter(0.25, False)), serve(UnusedQueueProxy())]
    ports = [port for port, _ in exporters]
    process = prometheus.start(lab, {"lab": [f"127.0.0.1:{port}" for port in ports]}, SCRAPE_S)
    server = Prometheus(f"http://127.0.0.1:{process.port}", 10.0)

    def ask(*questions: MetricsRequest, at_s: float | None = None) -> dict[str, Reading | str]:
        return read(QueryBatch(server, at_s or time.time()), questions, SCRAPE_S)

    ask.url = f"http://127.0.0.1:{process.port}"  # type: ignore[attr-defined]  # for what no question asks

    try:
        # Not the number of scrapes in the window: on busy cores some come late, or never.
        begun = f"count(up offset {WINDOW_S * 1000:.0f}ms)"
        lab.wait_for(
            lambda: max(server.values(begun, time.time()).values(), default=0) == len(ports),
            "the first scrapes are a window old",
        )
        yield ask
    finally:
        lab.stop(prometheus.PROMETHEUS)
        for _, stop in exporters:
            stop()


def question(preset: str, function: str, **changed: Any) -> MetricsRequest:
    facts: dict[str, Any] = {"pods": frozenset(CORES), "preset": preset, "cpu": True} | changed
    return MetricsRequest(f"shop/{function}", "shop", function, function, WINDOW_S, **facts)


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_what_was_exported_is_read(asked: Any, preset: str, lab: Lab) -> None:
    # Scrapes are stamped when they begin, counters read a moment later: not exact to the last digit.
    until_read(
        lab,
        lambda: asked(question(preset, FUNCTION[preset])),
        throughput_per_s=pytest.approx(OK_PER_S, rel=0.05),
        errors_per_s=pytest.approx(FAILED_PER_S, rel=0.05),
        # The balancer's latency hangs on one rate, the others' on two of the same scrapes.
        latency_s=pytest.approx(LATENCY_S, rel=0.05 if preset == "surgekit" else 0.01),
        cpu_cores=pytest.approx(sum(CORES.values()), rel=0.05),
    )


def until_read(lab: Lab, ask: Callable[[], dict[str, Reading | str]], **wanted: object) -> None:
    """In one of a few windows: busy cores may have delayed the scrapes of another."""
    answers: list[object] = []

    def as_exported() -> bool:
        (reading,) = ask().values()
        answers.append(reading)
        return isinstance(reading, Reading) and asdict(reading) == wanted

    try:
        lab.wait_for(as_exported, "what was exported")
    except LabError as error:
        raise AssertionError(answers[-1]) from error


@pytest.mark.parametrize("preset", sorted(IDLE))
def test_counters_that_stand_still_are_0_and_none_are_not(asked: Any, lab: Lab, preset: str) -> None:
    def found() -> bool:
        both = asked(question(preset, IDLE[preset], cpu=False), question(preset, "unknown", cpu=False))
        idle, unknown = both[f"shop/{IDLE[preset]}"], both["shop/unknown"]
        return bool(idle == Reading(0.0, 0.0, None, None) and unknown.startswith("no throughput of {"))

    lab.wait_for(found, "0 of the one, nothing of the other")


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_before_there_was_anything_nothing_is_read(asked: Any, preset: str) -> None:
    (found,) = asked(question(preset, FUNCTION[preset]), at_s=time.time() - 3600).values()
    assert found.startswith("no throughput of {")


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("sum(", "own PromQL: is no PromQL"),
        ("http_requests_total", "gives 7 series with a value, not one"),
        ("nobody_exports_this", "gives 0 series with a value, not one"),
        ("scalar(sum(http_requests_total))", "gives a scalar or text, not series"),
        ("http_requests_total[1m]", "gives ranges or histograms, not numbers"),
        ("sum(http_requests_total) / 0", "gives 0 series with a value, not one"),
        ("sum(http_requests_total - http_requests_total) / 0", "gives 0 series with a value, not one"),
    ],
)
def test_own_queries_that_give_no_number_say_so(asked: Any, lab: Lab, query: str, why: str) -> None:
    answers: list[str] = []

    def said() -> bool:
        (found,) = asked(question("http", "web", queries={"throughput": query})).values()
        answers.append(found)
        return why in found

    # A scrape that took longer than its second leaves a gap for some seconds.
    lab.wait_for(said, f"{why}: {answers[-1:]}")


def test_own_queries(asked: Any, lab: Lab) -> None:
    own = {
        "throughput": 'sum(rate(http_requests_total{namespace="$namespace",service="$function"}[$window]))',
        "errors": "vector(0)",
        "latency": 'count(group by (service) (http_requests_total{service="$function"})) / 2',
        "cpu": 'sum(rate(container_cpu_usage_seconds_total{pod=~"$target-0",container=""}[$window]))',
    }
    until_read(
        lab,
        lambda: asked(question("http", "web", queries=own)),
        throughput_per_s=pytest.approx(OK_PER_S + FAILED_PER_S, rel=0.05),
        errors_per_s=0.0,
        latency_s=0.5,
        cpu_cores=pytest.approx(CORES["web-0"], rel=0.05),
    )


@pytest.mark.parametrize(
    "query",
    [
        "http_requests_total", "sum(rate(a[5m])) / on (x) group_left (y) b offset 1m or 0 * {__name__=~'.+'}",
        "max_over_time(rate(q[1m] @ 5)[5m:30s] @ end())", '{"a.b", "x y"="z"} unless on ("c d") e',
        'a{b="\\"} or secret{c=\\""}', "a{b='\\''} + d{c=`\"`}", "topk(3, -a ^ 2) > bool 1", "absent(a)",
        'count_values("x\\"", a)', 'label_replace(a, "x", "$1", "y", "(.*)")',
    ],
)  # fmt: skip
def test_prometheus_reads_confined_queries_as_we_do(asked: Any, query: str) -> None:
    answer = requests.get(
        f"{asked.url}/api/v1/parse_query", params={"query": confined(query, "shop")}, timeout=30
    )
    assert answer.status_code == 200, answer.text
    selectors = list(_selectors(answer.json()["data"]))
    assert selectors
    for selector in selectors:
        own = [m for m in selector["matchers"] if m["name"] == "namespace"]
        assert own == [{"name": "namespace", "type": "=", "value": "shop"}]


def _selectors(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        if tree.get("type") in ("vectorSelector", "matrixSelector"):
            yield tree
        for part in tree.values():
            yield from _selectors(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from _selectors(part)


def test_a_tenant_reads_no_series_of_another(asked: Any, lab: Lab) -> None:
    """The same query gives a value in the namespace that has the series, and none in another."""
    everything = {"throughput": "sum(http_requests_total)", "errors": "vector(0)", "latency": "vector(1)"}
    own = question("http", "web", queries=everything, cpu=False)

    def read() -> bool:
        (found,) = asked(own).values()
        return isinstance(found, Reading) and found.throughput_per_s > 0

    lab.wait_for(read, "a value in its own namespace")
    (found,) = asked(replace(own, namespace="bank")).values()
    assert found == "metrics.queries.throughput gives 0 series with a value, not one"
