"""Queries Prometheus. Functions with the same window share two queries; each own query is one more."""

from __future__ import annotations

from collections.abc import Iterable

from combofunc.collector.target import (
    Asked,
    Target,
    coverage_query,
    decide,
    load_query,
    own_query,
)
from surgekit.prometheus.client import Labels, QueryBatch, QueryFailed

__all__ = ["targets"]


def targets(batch: QueryBatch, asked: Iterable[Asked], scrape_interval_s: float) -> dict[str, Target | str]:
    """By name of ComboFunc, its target concurrency at the time of the batch, or why there is none.

    Data that is missing, stale, NaN, or covers only a part of the window is a reason, never 0.
    """
    found: dict[str, Target | str] = {}
    for one in asked:
        try:
            found[one.name] = _target(batch, one, scrape_interval_s)
        except QueryFailed as error:
            found[one.name] = str(error)
    return found


def _target(batch: QueryBatch, one: Asked, step_s: float) -> Target | str:
    if one.query is not None:
        series = batch.own(own_query(one), one.namespace)
        if len(series) != 1:
            return f"collector.query returns {len(series)} series with a value, not one"
        # Only the author of the query knows whether its window is covered, so assume it is.
        return decide(one, next(iter(series.values())), one.window_s / step_s, step_s)
    labels: Labels = frozenset({("namespace", one.namespace), ("function", one.function)})
    measured = batch.series(load_query(one.window_s, step_s)).get(labels)
    if measured is None:
        return f"no concurrency measured for {one.function} in {one.namespace} in the last {one.window_s:g} s"
    steps = batch.series(coverage_query(one.window_s, step_s)).get(labels, 0.0)
    return decide(one, measured, steps, step_s)
