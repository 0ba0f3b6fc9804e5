"""What a queue-proxy of Knative Serving v0.50.0 exports for Prometheus; its counters move at every scrape.

Names and labels as its own code wrote them (pkg/queue/sharedmain: SetupObservabilityOrDie and mainHandler,
with containerConcurrency 1, 20 requests at once), buckets and what is not about requests left out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# A scrape finds 40 more requests answered after 0.5 s (0.15 s of them in the container) and 10 more refused.
OK, REFUSED, LATENCY_S, IN_CONTAINER_S, REFUSAL_S = 40, 10, 0.5, 0.15, 0.0001

_OTEL = (
    'otel_scope_name="go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp",otel_scope_schema_url=""'
)
_LABELS = (
    'http_request_method="GET",http_response_status_code="{code}",kn_route_tag="kn:disabled",'
    'network_protocol_name="http",network_protocol_version="1.1",' + _OTEL + ',otel_scope_version="0.69.0",'
    'server_address="127.0.0.1",server_port="8012",url_scheme="http"'
)
_QUEUE = (
    'http_response_status_code="200",otel_scope_name="knative.dev/serving/pkg/queue",'
    'otel_scope_schema_url="",otel_scope_version=""'
)


def exposition(namespace: str, revision: str, scrape: int) -> str:
    lines = ["# TYPE http_server_request_duration_seconds histogram"]
    for code, count, seconds in ((200, OK, LATENCY_S), (503, REFUSED, REFUSAL_S)):
        labels = _LABELS.format(code=code)
        lines += [
            f'http_server_request_duration_seconds_bucket{{{labels},le="+Inf"}} {scrape * count}',
            f"http_server_request_duration_seconds_sum{{{labels}}} {scrape * count * seconds}",
            f"http_server_request_duration_seconds_count{{{labels}}} {scrape * count}",
        ]
    lines += [
        "# TYPE kn_serving_invocation_duration_seconds histogram",
        f'kn_serving_invocation_duration_seconds_bucket{{{_QUEUE},le="+Inf"}} {scrape * OK}',
        f"kn_serving_invocation_duration_seconds_sum{{{_QUEUE}}} {scrape * OK * IN_CONTAINER_S}",
        f"kn_serving_invocation_duration_seconds_count{{{_QUEUE}}} {scrape * OK}",
        "# TYPE target_info gauge",
        'target_info{container_name="queue-proxy",k8s_namespace_name="' + namespace + '",'
        f'k8s_pod_name="{revision}-deployment-abc",kn_configuration_name="shop",kn_revision_name="{revision}",'
        f'kn_service_name="shop",service_instance_id="{revision}-deployment-abc",service_name="shop",'
        'service_version="unknown",telemetry_sdk_language="go",telemetry_sdk_name="opentelemetry",'
        'telemetry_sdk_version="1.44.0"} 1',
    ]
    return "\n".join(lines) + "\n"


def stranger(scrape: int) -> str:
    """A collector that speaks for several programs, none of them Knative's."""
    lines = [f'target_info{{service_name="program-{i}"}} 1' for i in range(2)]
    for part in ("sum", "count"):
        name = f"http_server_request_duration_seconds_{part}"
        lines.append(f'{name}{{http_response_status_code="200"}} {scrape * 1000}')
    return "\n".join(lines) + "\n"


@contextmanager
def exporter(namespace: str, revision: str) -> Iterator[str]:
    """host:port of /metrics; an empty revision is the stranger."""
    scrapes = iter(range(1, 1_000_000))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            scrape = next(scrapes)
            text = exposition(namespace, revision, scrape) if revision else stranger(scrape)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *arguments: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
