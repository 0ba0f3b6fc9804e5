"""Decides a function's target concurrency from the measured load. Pure.

The target is the mean number of requests in flight and queued over one window. By Little's law this is the
concurrency that the load needs. `headroom` covers load above the mean. The maximum (`max_over_time`) would
keep each spike for a whole window; an own query can ask for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from string import Template

from surgekit.prometheus.client import duration

__all__ = ["Asked", "Target", "coverage_query", "decide", "load_query", "own_query"]

# Share of the expected scrapes that must be there: one may be late at either end.
_ENOUGH = 0.75
_ROUNDING = 1e-9  # a mean of 3.0000000000000004 requests is three
_MOST = 1_000_000  # above this something else was measured

# Sum before the mean: if one balancer replaces another, each has a mean over its own part of the window.
_ALL = "sum by (namespace, function) (surgekit_function_in_flight + surgekit_function_queued)[$window:$step]"


@dataclass(frozen=True)
class Asked:
    """One function, and how to measure its concurrency."""

    name: str  # namespace/name of the ComboFunc
    namespace: str
    function: str
    window_s: float
    headroom: float = 1.0  # factor on the measured concurrency
    query: str | None = None  # own PromQL; $namespace, $function and $window are filled in; one series


@dataclass(frozen=True)
class Target:
    """Target concurrency: measured, times headroom, rounded up."""

    concurrency: int
    measured: float
    headroom: float
    window_s: float


def load_query(window_s: float, step_s: float) -> str:
    """Mean concurrency of every function that the balancers serve."""
    return f"avg_over_time({_filled(window_s, step_s)})"


def coverage_query(window_s: float, step_s: float) -> str:
    """Number of steps in the window that have a value."""
    return f"count_over_time({_filled(window_s, step_s)})"


def own_query(asked: Asked) -> str:
    filled = {"namespace": asked.namespace, "function": asked.function, "window": duration(asked.window_s)}
    return Template(asked.query or "").safe_substitute(filled)


def decide(asked: Asked, measured: float, steps: float, step_s: float) -> Target | str:
    """The target, or why there is none. `steps`: number of steps in the window that had a value."""
    expected = max(1.0, asked.window_s / step_s)
    if steps < _ENOUGH * expected:
        return f"{steps:.0f} of about {expected:.0f} scrapes in the last {asked.window_s:g} s"
    if not 0 <= measured <= _MOST:  # NaN is neither
        return f"a concurrency of {measured!r} is not possible"
    concurrency = math.ceil(measured * asked.headroom - _ROUNDING)
    return Target(concurrency, measured, asked.headroom, asked.window_s)


def _filled(window_s: float, step_s: float) -> str:
    return Template(_ALL).substitute(window=duration(window_s), step=duration(step_s))
