"""The gateway's metrics, with the names of OpenFaaS's gateway.

Read from HAProxy's log, one line a request, so that failures count like answers:
`gateway_functions_seconds` observes both (github.com/openfaas/faas, gateway/handlers/notifiers.go). The
label `code` exists in newer gateways; older ones, and the documentation, have `function_name` alone.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["GatewayMetrics"]

# The Go client's default, which OpenFaaS's gateway uses.
_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class GatewayMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._invocations = Counter(
            "gateway_function_invocation",
            "Function metrics",
            ["function_name", "code"],
            registry=registry,
        )
        self._seconds = Histogram(
            "gateway_functions_seconds",
            "Function time taken",
            ["function_name", "code"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self.in_flight = Gauge(
            "gateway_function_invocation_inflight",
            "Invocations that were not answered yet",
            ["function_name"],
            registry=registry,
        )
        self.replicas = Gauge(
            "gateway_service_count", "Pods that get requests", ["function_name"], registry=registry
        )
        self.without_slot = Gauge(
            "lab_gateway_pods_without_slot", "Pods past what HAProxy has servers for", ["function_name"],
            registry=registry,
        )  # fmt: skip
        self.lost_lines = Gauge(
            "lab_gateway_lost_log_lines",
            "Requests HAProxy could not log",
            registry=registry,
        )
        self.bad_lines = Counter(
            "lab_gateway_bad_log_lines", "Log lines that could not be read", registry=registry
        )
        self._series: dict[tuple[bytes, bytes], tuple[Counter, Histogram]] = {}

    def observe(self, line: bytes) -> None:
        """Count one log line: host, status, microseconds, how it ended.

        Without a status, the client left (499, as in nginx) or the connection to the pod broke (502, as in
        OpenFaaS's gateway).
        """
        try:
            host, code, duration_us, ended = line.split()
            seconds = int(duration_us) / 1e6
            if int(code) <= 0:
                code = b"499" if ended.startswith(b"C") else b"502"
        except ValueError:
            self.bad_lines.inc()
            return
        series = self._series.get((host, code))
        if series is None:
            names = (host.decode(), code.decode())
            series = (self._invocations.labels(*names), self._seconds.labels(*names))
            self._series[host, code] = series
        series[0].inc()
        series[1].observe(seconds)
