"""The expander's alerts, asked of a real Prometheus that scrapes a real expander."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import orjson
import pytest
import yaml

from cluster_autoscaler_hook.expander.server import Server
from cluster_autoscaler_hook.expander.settings import Settings
from kwok import prometheus
from kwok.lab import Lab
from tests.cluster_autoscaler_hook.expander.builders import RECORDED, no_plan
from tests.paths import ROOT

pytestmark = pytest.mark.lab
RULES = ROOT / "manifests" / "overlays" / "monitoring" / "rules.yaml"


@pytest.fixture
def autoscaler() -> Iterator[HTTPServer]:
    """What Cluster Autoscaler tells Prometheus while it adds a node for every scrape."""

    class Metrics(BaseHTTPRequestHandler):
        nodes = 0

        def do_GET(self) -> None:
            Metrics.nodes += 1
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(f"cluster_autoscaler_scaled_up_nodes_total {Metrics.nodes}\n".encode())

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Metrics)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_never_asked_bypassed_and_unpriced(lab: Lab, autoscaler: HTTPServer) -> None:
    settings = Settings(
        bind="127.0.0.1:0",
        health_bind="127.0.0.1:0",
        explain_bind="127.0.0.1:0",
        price_labels=(),
        deadline_s=4,
    )
    expander = Server(settings, no_plan).start()
    ports = {"surgekit-expander": expander.http_port, "autoscaler": autoscaler.server_port}
    process = prometheus.start(lab, {job: [f"127.0.0.1:{port}"] for job, port in ports.items()})
    try:

        def firing(alert: str) -> bool:
            url = f"http://127.0.0.1:{process.port}/api/v1/query?query={quote(expression(alert))}"
            with urlopen(url, timeout=10) as answer:
                return bool(orjson.loads(answer.read())["data"]["result"])

        lab.wait_for(lambda: firing("SurgekitExpanderNeverAsked"), "never asked")
        lab.wait_for(lambda: firing("SurgekitExpanderBypassed"), "nodes added without a question")
        assert not firing("SurgekitExpanderUnpriced")
        expander.expander.best_options(RECORDED[0].read_bytes())
        lab.wait_for(lambda: firing("SurgekitExpanderUnpriced"), "options without a price")
        lab.wait_for(lambda: not firing("SurgekitExpanderNeverAsked"), "asked")
        lab.wait_for(lambda: not firing("SurgekitExpanderBypassed"), "asked")
    finally:
        lab.stop(prometheus.PROMETHEUS)
        expander.stop()


def expression(alert: str) -> str:
    groups = yaml.safe_load(RULES.read_text())["spec"]["groups"]
    (found,) = (rule["expr"] for group in groups for rule in group["rules"] if rule["alert"] == alert)
    return str(found)
