"""PromQL for the metrics of common gateways. One query answers for all functions of a preset.

A query gives one series per function, named by the preset's labels. A function whose counters exist but did
not move is 0; a function without counters is missing, which is never read as 0: hence `or 0 * ...`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["CPU", "PRESETS", "Preset"]


# From a function's namespace and name: the labels that name it in the results of a query.
FunctionLabels = Callable[[str, str], Mapping[str, str]]


@dataclass(frozen=True)
class Preset:
    """The queries for one kind of gateway; `$window` is the length of the sample."""

    throughput: str  # successful requests a second
    latency: str  # mean seconds of a request
    errors: str  # failed requests a second
    samples: str  # scrapes within the window: too few do not cover it
    key: FunctionLabels


@dataclass(frozen=True)
class _GatewayMetrics:
    """The metrics of a gateway that counts requests by code, and times them."""

    requests: str  # the counter
    ok: str  # selects the codes of successful requests
    failed: str  # selects the others
    seconds: str  # the histogram or summary
    by: str  # the labels that name a function
    key: FunctionLabels

    def preset(self) -> Preset:
        requests, by = self.requests, self.by
        total_s, count = f"{self.seconds}_sum", f"{self.seconds}_count"

        def rate(name: str, selector: str = "") -> str:
            return f"sum by ({by}) (rate({name}{{{selector}}}[$window]))"

        return Preset(
            throughput=f"{rate(requests, self.ok)} or 0 * {rate(requests)}",
            errors=f"{rate(requests, self.failed)} or 0 * {rate(requests)}",
            # Only successful requests where the histogram has codes: failed ones waited for the timeout.
            latency=f"{rate(total_s, self.ok)} / ({rate(count, self.ok)} > 0)"
            f" or {rate(total_s)} / {rate(count)}",
            samples=f"max by ({by}) (count_over_time({requests}[$window]))",
            key=self.key,
        )


# knative.dev/serving v0.50.0, pkg/queue/sharedmain: the queue-proxy's outermost handler times a request from
# its arrival to its end, without probes. Not kn_serving_invocation_duration_seconds: it is measured inside
# queue and timeout, so it sees neither waiting nor refused (503) nor timed-out (504) requests.
_KNATIVE = "http_server_request_duration_seconds"
_KNATIVE_BY = "k8s_namespace_name, kn_revision_name"
# Only target_info names the revision; the target_info of other exporters has no kn_revision_name.
_REVISION = (
    f"* on (job, instance) group_left ({_KNATIVE_BY})"
    f' max by (job, instance, {_KNATIVE_BY}) (target_info{{kn_revision_name!=""}})'
)


def _knative_rate(name: str, selector: str = "") -> str:
    return f"sum by ({_KNATIVE_BY}) (rate({_KNATIVE}_{name}{{{selector}}}[$window]) {_REVISION})"


_OK, _FAILED = (f'http_response_status_code{is_}"[23].."' for is_ in ("=~", "!~"))
_ALL = _knative_rate("count")
# Queue-proxies that have answered nothing yet export target_info alone: that is 0. After the first answer
# there is a counter, and no rate before its second scrape: that is not 0.
_INFO = 'target_info{kn_revision_name!=""}'
_UNUSED = (
    f"0 * max by ({_KNATIVE_BY}) ({_INFO})"
    f" unless on ({_KNATIVE_BY}) max by ({_KNATIVE_BY}) ({_KNATIVE}_count {_REVISION})"
)


def _balancer(over_time: str, what: str) -> str:
    return f"sum by (namespace, function) ({over_time}(surgekit_function_{what}[$window]))"


PRESETS: Mapping[str, Preset] = {
    # gateway_function_invocation_total counts by function and code, gateway_functions_seconds times them.
    "openfaas": _GatewayMetrics(
        requests="gateway_function_invocation_total",
        ok='code=~"2.."',
        failed='code!~"2.."',
        seconds="gateway_functions_seconds",
        by="function_name",
        key=lambda namespace, function: {"function_name": f"{function}.{namespace}"},
    ).preset(),
    "knative": Preset(
        throughput=f"{_knative_rate('count', _OK)} or 0 * {_ALL} or {_UNUSED}",
        errors=f"{_knative_rate('count', _FAILED)} or 0 * {_ALL} or {_UNUSED}",
        # Only successful requests: a full queue refuses at once, which is not fast service.
        latency=f"{_knative_rate('sum', _OK)} / ({_knative_rate('count', _OK)} > 0)"
        f" or {_knative_rate('sum')} / {_ALL}",
        samples=f"max by ({_KNATIVE_BY}) (count_over_time({_INFO}[$window]))",
        key=lambda namespace, revision: {"k8s_namespace_name": namespace, "kn_revision_name": revision},
    ),
    # Exported by instrumented services and many proxies; `service` is the Prometheus operator's label.
    "http": _GatewayMetrics(
        requests="http_requests_total",
        ok='code=~"[23].."',
        failed='code!~"[23].."',
        seconds="http_request_duration_seconds",
        by="namespace, service",
        key=lambda namespace, function: {"namespace": namespace, "service": function},
    ).preset(),
    # The load balancer of ComboFuncs. HAProxy keeps no sum of latencies; by Little's law the mean is the
    # requests in the balancer divided by the responses a second. The mean is over all scrapes together: if
    # one balancer replaced another, each covers only a part of the window.
    "surgekit": Preset(
        throughput=_balancer("rate", 'responses_total{code=~"[23]xx"}'),
        errors=_balancer("rate", 'responses_total{code=~"[45]xx"}'),
        latency=f"({_balancer('sum_over_time', 'in_flight')} + {_balancer('sum_over_time', 'queued')})"
        f" / {_balancer('count_over_time', 'in_flight')} / {_balancer('rate', 'responses_total')}",
        samples="max by (namespace, function) (count_over_time(surgekit_function_responses_total[$window]))",
        key=lambda namespace, function: {"namespace": namespace, "function": function},
    ),
}
# Cores by pod, from the kubelet's resource metrics or cAdvisor's, with any gateway.
CPU = 'sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{container!=""}[$window]))'
