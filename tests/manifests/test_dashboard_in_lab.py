"""Every query of the dashboard and of the alerts, answered by a real Prometheus.

It scrapes the registries that the parts serve, each in a server of its own as in its pod. Values are made up
and grow; names, types and labels are the parts' own.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.metrics import MetricWrapperBase

import burst_plane.metrics
import cluster_autoscaler_hook.expander.service
import cluster_autoscaler_hook.karpenter.metrics
import combofunc.metrics
import hpa_replacement.adapter.metrics
import hpa_replacement.metrics
import limit_allocator.metrics
import node_speed_probe.metrics
import scheduler_extender.extender
from kwok import prometheus
from kwok.lab import Lab
from node_speed_probe.ledger import Snapshot
from node_speed_probe.model import NodeSpeedEstimate, Reason
from surgekit.process.controller import Controller
from tests.paths import MANIFESTS

pytestmark = pytest.mark.lab

DASHBOARD = json.loads((MANIFESTS / "overlays" / "monitoring" / "surgekit.json").read_text())
QUERIES = [
    (panel["title"], target["expr"], target["legendFormat"])
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
]
RULES = yaml.safe_load((MANIFESTS / "overlays" / "monitoring" / "rules.yaml").read_text())
ALERTS = [(rule["alert"], rule["expr"]) for group in RULES["spec"]["groups"] for rule in group["rules"]]
RATE_INTERVAL = "10s"  # Grafana makes it four scrape intervals; here they are of a second


def registries() -> dict[str, CollectorRegistry]:
    """Those of all parts that the dashboard shows, as their processes put them together."""
    scrapes = itertools.count(1)
    extender = CollectorRegistry()
    scheduler_extender.extender.Metrics(extender)

    def snapshot() -> Snapshot:
        node = NodeSpeedEstimate(
            node="node-0",
            node_uid="0",
            tau_create_s=0.5,
            tau_create_rel_error=0.1,
            samples=3,
            source="measured",
            reason=Reason.MEASURED,
            creating=2,
        )
        return Snapshot(0.0, (node,), made := next(scrapes), {"timeout": made})

    led = {
        "probe": node_speed_probe.metrics.ProbeMetrics(snapshot).registry,
        "node_planner": cluster_autoscaler_hook.karpenter.metrics.HookMetrics().registry,
        "kneescale": hpa_replacement.metrics.KneeScaleMetrics().registry,
        "combofunc": combofunc.metrics.ComboFuncMetrics().registry,
        "limit_allocator": limit_allocator.metrics.LimitMetrics().registry,
        "burst_controller": burst_plane.metrics.ControllerMetrics().registry,
    }
    for name, registry in led.items():
        recorder = SimpleNamespace(about=lambda *_: None)
        lease = SimpleNamespace(held=True)
        Controller(
            name,
            registry,
            ages_s=lambda _: {"pods": 1.0},
            events=cast(Any, recorder),
            lease=cast(Any, lease),
        )
    return led | {
        "extender": extender,
        "expander": cluster_autoscaler_hook.expander.service.Metrics().registry,
        "adapter": hpa_replacement.adapter.metrics.Metrics(lambda: 3, lambda: 1.0).registry,
    }


def stir(registry: CollectorRegistry) -> None:
    """Something happens: each of a part's own metrics moves, with an example of each of its labels."""
    for metric in list(registry._collector_to_names):
        if not isinstance(metric, MetricWrapperBase):
            continue
        names = metric._labelnames
        child = metric.labels(*(f"some-{name}" for name in names)) if names else metric
        if isinstance(child, Counter):
            child.inc(2)
        elif isinstance(child, Histogram):
            child.observe(0.01)
        elif isinstance(child, Gauge) and hasattr(child, "_value"):
            child.set(5)


class Prometheus:
    """A running one, and what it scrapes."""

    def __init__(self, port: int, parts: list[CollectorRegistry]) -> None:
        self._port, self._parts = port, parts

    def ask(self, expression: str) -> list[dict[str, Any]]:
        for registry in self._parts:
            stir(registry)
        query = urlencode({"query": expression.replace("$__rate_interval", RATE_INTERVAL)})
        with urlopen(f"http://127.0.0.1:{self._port}/api/v1/query?{query}", timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found


@pytest.fixture(scope="module")
def asked(lab: Lab) -> Iterator[Prometheus]:
    parts = registries()
    servers = {name: start_http_server(0, "127.0.0.1", registry)[0] for name, registry in parts.items()}
    targets = {name: [f"127.0.0.1:{server.server_port}"] for name, server in servers.items()}
    process = prometheus.start(lab, targets)
    try:
        yield Prometheus(process.port or 0, list(parts.values()))
    finally:
        lab.stop(prometheus.PROMETHEUS)
        for server in servers.values():
            server.shutdown()
            server.server_close()


@pytest.mark.parametrize(("title", "expression", "legend"), QUERIES, ids=lambda value: str(value)[:60])
def test_a_query_of_the_dashboard_is_answered(
    lab: Lab, asked: Prometheus, title: str, expression: str, legend: str
) -> None:
    found: list[dict[str, Any]] = []

    def answered() -> bool:
        found[:] = asked.ask(expression)
        return bool(found) and all(math.isfinite(float(series["value"][1])) for series in found)

    lab.wait_for(answered, f"an answer with numbers for {title!r}: {expression}")
    named = set(re.findall(r"{{\s*(\w+)\s*}}", legend))
    for series in found:
        assert set(series["metric"]) - {"__name__"} == named, "the legend names what tells its lines apart"


@pytest.mark.parametrize(("alert", "expression"), ALERTS, ids=lambda value: str(value)[:60])
def test_the_expression_of_an_alert_is_understood(asked: Prometheus, alert: str, expression: str) -> None:
    """Whether it fires depends on values; that its metrics exist is said by test_manifest_files."""
    for series in asked.ask(expression):
        assert float(series["value"][1]) is not None
