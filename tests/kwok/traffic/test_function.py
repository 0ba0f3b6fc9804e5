"""A function's numbers: what they may be, compressed time, the draw of a request's demand."""

from __future__ import annotations

import random
import statistics
from dataclasses import replace

import pytest

from kwok.errors import TrafficError
from kwok.traffic.function import Function
from kwok.traffic.functions import CLUSTER, FUNCTIONS, variants

FUNCTION = Function(
    "f", 0.2, 0.5, concurrency=1, cold_start_s=2.0, cpu_cores=0.2, memory_bytes=1, demand_cv=0.4
)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cpu_s", -1),
        ("io_s", float("nan")),
        ("concurrency", 0),
        ("cold_start_s", -0.1),
        ("cpu_cores", 0),
        ("memory_bytes", 0),
        ("demand_cv", -1),
    ],
)
def test_a_number_that_cannot_be_is_named(field: str, value: float) -> None:
    with pytest.raises(TrafficError, match=rf"function f: {field} is {value!r}"):
        replace(FUNCTION, **{field: value})  # type: ignore[arg-type]


def test_a_request_demands_something() -> None:
    with pytest.raises(TrafficError, match="both 0"):
        replace(FUNCTION, cpu_s=0, io_s=0)


def test_compressed_time_divides_every_duration_alike() -> None:
    short = FUNCTION.compressed(4)
    assert (short.cpu_s, short.io_s, short.cold_start_s) == (0.05, 0.125, 0.5)
    assert short.service_s == pytest.approx(FUNCTION.service_s / 4)
    assert short.cpu_cores == FUNCTION.cpu_cores
    with pytest.raises(TrafficError, match="time_factor"):
        FUNCTION.compressed(0)


def test_demand_has_the_mean_and_the_spread_it_claims() -> None:
    draw = random.Random(1)
    demands = [FUNCTION.draw_demand(draw) for _ in range(40_000)]
    cpu_s = [demand[0] for demand in demands]
    assert statistics.fmean(cpu_s) == pytest.approx(0.2, rel=0.01)
    assert statistics.pstdev(cpu_s) / statistics.fmean(cpu_s) == pytest.approx(0.4, rel=0.03)
    assert all(io_s == pytest.approx(2.5 * cpu_s) for cpu_s, io_s in demands)
    assert replace(FUNCTION, demand_cv=0.0).draw_demand(draw) == (0.2, 0.5)


@pytest.mark.parametrize(
    ("name", "service_s", "capacity"),
    [
        ("float-operation", 1.0, 114),
        ("matmul", 0.8, 76),
        ("gzip-compression", 0.9, 76),
        ("image-processing", 1.1, 76),
        ("model-serving-rnn", 4.5, 76),
    ],
)
def test_the_five_functions_of_table_iii(name: str, service_s: float, capacity: int) -> None:
    function = FUNCTIONS[name]
    assert function.service_s == pytest.approx(service_s)
    assert CLUSTER.capacity(function.cpu_cores) == capacity
    # Full nodes are not oversubscribed: pods of these experiments do not disturb each other.
    assert max(CLUSTER.allocatable_cores) <= CLUSTER.node_cores
    most = CLUSTER.capacity(function.cpu_cores) / len(CLUSTER.allocatable_cores) + 1
    assert most * function.memory_bytes < CLUSTER.node_memory_bytes


def test_variants_differ_where_they_say() -> None:
    function = FUNCTIONS["image-processing"]
    slow, fast, concurrent, io_heavy = variants(function).values()
    assert slow.service_s == pytest.approx(2 * function.service_s)
    assert fast.service_s == pytest.approx(function.service_s / 2)
    assert replace(concurrent, name=function.name, concurrency=1) == function
    assert io_heavy.service_s == pytest.approx(function.service_s)
    assert io_heavy.io_s == pytest.approx(0.75 * function.service_s)
