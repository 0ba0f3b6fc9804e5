"""Quantiles read from the buckets of a Prometheus histogram."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from experiments.histogram import quantile, read_buckets


def scraped(*values: float) -> str:
    registry = CollectorRegistry()
    histogram = Histogram("asked_seconds", "...", buckets=(1.0, 2.0, 4.0), registry=registry)
    for value in values:
        histogram.observe(value)
    return generate_latest(registry).decode()


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [
        ((0.5, 0.5, 1.5, 1.5), 0.5, 1.0),  # the bound between the two halves
        ((0.5, 0.5, 1.5, 1.5), 0.75, 1.5),  # half of the way through the second bucket
        ((3.0,) * 10, 0.5, 3.0),  # empty buckets below
        ((0.5, 9.0), 0.99, 4.0),  # past the last finite bound
    ],
)
def test_quantile(values: tuple[float, ...], q: float, expected: float) -> None:
    assert quantile(read_buckets(scraped(*values), "asked_seconds"), q) == pytest.approx(expected)


def test_two_scrapes_add_up() -> None:
    both = read_buckets(scraped(0.5, 0.5), "asked_seconds")
    both.update(read_buckets(scraped(1.5, 1.5), "asked_seconds"))
    assert both[float("inf")] == 4
    assert quantile(both, 0.75) == pytest.approx(1.5)


def test_a_missing_histogram_is_named() -> None:
    with pytest.raises(ValueError, match="other_seconds"):
        read_buckets(scraped(), "other_seconds")
