"""Reports from HAProxy's statistics."""

from __future__ import annotations

from burst_plane.model import Function
from burst_plane.placement.traffic import TrafficMeter, function_of
from surgekit.haproxy.traffic import FunctionTraffic as Statistics


def stats(
    arrivals: int, pods: int = 0, emergency: int = 0, waiting: int = 0, backend: str = "f0"
) -> Statistics:
    return Statistics(backend, arrivals, 0, pods, emergency, waiting, 1)


def test_arrivals_are_differences_and_the_rest_means() -> None:
    meter = TrafficMeter()
    meter.look({"resize.shop": stats(100)})
    assert meter.report()[0].arrivals == 0  # from before our time
    meter.look({"resize.shop": stats(103, pods=1, waiting=4)})
    meter.look({"resize.shop": stats(107, pods=2, emergency=3)})
    meter.started["resize.shop"] += 3
    meter.refused["resize.shop"] += 1
    report = meter.report()[0]
    assert report.function == Function("shop", "resize")
    assert (report.arrivals, report.in_regular, report.queued, report.in_emergency) == (7, 1.5, 2.0, 1.5)
    assert (report.started, report.refused, report.failed) == (3, 1, 0)
    meter.look({"resize.shop": stats(107)})
    report = meter.report()[0]
    assert (report.arrivals, report.in_regular, report.started) == (0, 0.0, 0)


def test_short_requests_that_no_look_sees_count_a_little_on_their_track() -> None:
    meter = TrafficMeter()
    meter.look({"a.b": stats(0)})
    meter.report()
    meter.look({"a.b": stats(5)})
    meter.started["a.b"] += 2
    report = meter.report()[0]
    assert 0 < report.in_emergency < report.in_regular < 0.01
    meter.look({"a.b": stats(5)})
    assert meter.report()[0].in_regular == 0.0


def test_a_restarted_haproxy_begins_at_0_and_another_backend_at_its_own() -> None:
    meter = TrafficMeter()
    meter.look({"a.b": stats(100)})
    meter.look({"a.b": stats(5)})
    assert meter.report()[0].arrivals == 5
    meter.look({"a.b": stats(900, backend="f7")})
    assert meter.report()[0].arrivals == 0


def test_a_function_that_nobody_asks_for_any_more_is_not_reported() -> None:
    meter = TrafficMeter()
    meter.look({"a.b": stats(1)})
    meter.report()
    meter.look({})
    assert meter.report() == ()


def test_only_hosts_of_two_labels_are_functions() -> None:
    assert function_of("a.b") == Function("b", "a")
    assert [function_of(h) for h in ("a", "a.b.c", ".b", "a.", "")] == [None] * 5
