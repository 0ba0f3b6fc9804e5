"""HAProxy's log lines as OpenFaaS's metrics."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from kwok.traffic.gateway_metrics import GatewayMetrics


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def test_what_failed_counts_like_what_was_answered(registry: CollectorRegistry) -> None:
    metrics = GatewayMetrics(registry)
    for line in (b"f.a 200 250000 --", b"f.a 200 750000 --", b"f.a 504 20000000 sH\n", b"g.a 200 1 --"):
        metrics.observe(line)
    good, late = {"function_name": "f.a", "code": "200"}, {"function_name": "f.a", "code": "504"}
    assert registry.get_sample_value("gateway_function_invocation_total", good) == 2
    assert registry.get_sample_value("gateway_function_invocation_total", late) == 1
    assert registry.get_sample_value("gateway_functions_seconds_sum", good) == 1.0
    assert registry.get_sample_value("gateway_functions_seconds_count", late) == 1
    assert registry.get_sample_value("gateway_functions_seconds_sum", late) == 20.0
    assert registry.get_sample_value("gateway_functions_seconds_bucket", {**good, "le": "0.25"}) == 1


@pytest.mark.parametrize("line", [b"", b"f.a 200", b"f.a 200 soon --", b"Server f.a/pod1 is UP, at last"])
def test_a_line_that_cannot_be_read_is_counted_as_such(registry: CollectorRegistry, line: bytes) -> None:
    GatewayMetrics(registry).observe(line)
    assert registry.get_sample_value("lab_gateway_bad_log_lines_total") == 1


@pytest.mark.parametrize(
    ("line", "code"), [(b"f.a -1 5 CH", "499"), (b"f.a 0 5 SH", "502"), (b"f.a -1 5 SH", "502")]
)
def test_a_request_without_an_answer_has_a_code_too(
    registry: CollectorRegistry, line: bytes, code: str
) -> None:
    GatewayMetrics(registry).observe(line)
    labels = {"function_name": "f.a", "code": code}
    assert registry.get_sample_value("gateway_function_invocation_total", labels) == 1
