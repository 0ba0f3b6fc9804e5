"""Slow PromQL of one namespace, a real client, an HTTP server in place of Prometheus: others are decided."""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from hpa_replacement.metrics import KneeScaleMetrics
from hpa_replacement.observe.sources import ClusterSource
from hpa_replacement.policy_reconciler import ClusterAccess, PolicyReconciler
from hpa_replacement.settings import Settings
from surgekit.kube.client import Kube
from surgekit.prometheus.client import Prometheus
from tests.events_at_once import unreadable
from tests.hpa_replacement.builders import kneepolicy, node, pod, policy_events

Json = dict[str, Any]
NOISY, QUIET, PRESET = "noisy", "quiet", "preset"


class SlowPrometheus:
    """Answers 1 to every query; those of the metric `slow` wait until released."""

    def __init__(self) -> None:
        outer, self.asked, self.release = self, list[str](), threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query)["query"][0]
                outer.asked.append(query)
                if "slow" in query:
                    outer.release.wait(90)
                labels = {"namespace": PRESET, "service": "web"} if "service" in query else {}
                result = [{"metric": labels, "value": [1.0, "1"]}]
                body = json.dumps({"status": "success", "data": {"result": result}}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()


class Statuses(Kube):
    """An API server that keeps the statuses of policies."""

    def __init__(self) -> None:
        self.reasons: dict[str, list[str]] = {}

    def get(self, path: str, **_: Any) -> Json:
        if path == "/apis/apps/v1":
            kinds = {"deployments": "Deployment", "deployments/scale": "Scale"}
            return {"resources": [{"name": n, "kind": k} for n, k in kinds.items()]}
        return {"spec": {"replicas": 1}, "status": {"selector": "app=web"}}

    def create(self, path: str, body: Json, **_: Any) -> Json:
        return body

    def patch(self, path: str, body: Any, *_: Any, **__: Any) -> Json:
        if path.endswith("/status"):
            namespace = path.split("/namespaces/")[1].split("/", maxsplit=1)[0]
            (condition,) = body["status"]["conditions"]
            said = f"{condition['reason']}: {condition['message']}"
            self.reasons.setdefault(namespace, []).append(said)
        return {}


def _in(namespace: str, obj: Json) -> Json:
    obj = copy.deepcopy(obj)
    obj["metadata"] |= {"namespace": namespace, "uid": f"{namespace}/{obj['metadata']['name']}"}
    return obj


def _own(metric: str) -> Json:
    return {"queries": {what: f"{metric}_{what}" for what in ("throughput", "latency", "errors", "cpu")}}


def _until(holds: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + 90
    while not holds():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.02)


@pytest.fixture
def prometheus() -> Iterator[SlowPrometheus]:
    server = SlowPrometheus()
    yield server
    server.stop()


def test_slow_queries_of_one_namespace_hold_up_nobody_else(prometheus: SlowPrometheus) -> None:
    kube = Statuses()
    source = ClusterSource(cast(Kube, kube), unreadable())
    noisy = [_in(NOISY, kneepolicy(f"web-{i}", metrics=_own(f"slow_{i}"))) for i in range(12)]
    for obj in noisy:
        obj["spec"]["scaleTargetRef"]["name"] = obj["metadata"]["name"]
    others = [_in(QUIET, kneepolicy(metrics=_own("quick"))), _in(PRESET, kneepolicy(metrics={}))]
    pods = [_in(namespace, pod("web-0")) for namespace in (NOISY, QUIET, PRESET)]
    for what, objects in (("kneepolicies", [*noisy, *others]), ("nodes", [node()]), ("pods", pods)):
        source._watches[what]._consumer.replace(objects, time.monotonic())
    # Queries that hang would take 60 s each.
    settings = Settings(scrape_interval_s=30.0, prometheus_timeout_s=60.0)
    client = Prometheus(prometheus.url, settings.prometheus_timeout_s)
    reconciler = PolicyReconciler(
        settings, ClusterAccess(kube, source, client, policy_events(kube)), KneeScaleMetrics(), lambda: True
    )
    now_s = time.time() // 30 * 30 + 1
    try:
        for number in range(1, 4):
            reconciler.reconcile_due(now_s + 30 * number)
            _until(lambda n=number: len(kube.reasons.get(QUIET, ())) >= n, "own PromQL")  # type: ignore[misc]
            assert len(kube.reasons.get(PRESET, ())) == number, "the preset's is there when the round is over"
        assert all(said.startswith("Searching") for said in kube.reasons[QUIET]), kube.reasons[QUIET]
        assert all(said.startswith("Searching") for said in kube.reasons[PRESET]), kube.reasons[PRESET]
        assert NOISY not in kube.reasons
        assert sum("slow" in query for query in prometheus.asked) == 1, "one query of a namespace at a time"
        edited = copy.deepcopy(noisy)
        for obj in edited:
            obj["metadata"]["generation"] += 1
            obj["spec"]["mode"] = "off"
        source._watches["kneepolicies"]._consumer.replace([*edited, *others], time.monotonic())
        prometheus.release.set()
        reconciler._lanes.wait()
        assert NOISY not in kube.reasons, "nothing is done for a policy that has changed meanwhile"
    finally:
        prometheus.release.set()
        reconciler._lanes.wait()
        reconciler.stop()
