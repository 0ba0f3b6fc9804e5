"""What a function's target concurrency is, given what was measured. Pure.

The mean of what was in flight and queued over one window: by Little's law the concurrency that the load
needs. The largest value instead (`max_over_time`) would follow each spike for a whole window; who wants
that says so in a query of one's own. What the mean leaves out is what `headroom` is for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from string import Template

from surgekit.prometheus.client import duration

__all__ = ["Asked", "Target", "coverage_query", "decide", "load_query", "own_query"]

# Of the scrapes a window should hold: one may be late at either end.
_ENOUGH = 0.75
_CRUMB = 1e-9  # of a mean's rounding: 3.0000000000000004 requests are three
_MOST = 1_000_000  # past that something else was measured

# The sum is taken before the mean: of two balancers, one of which replaced the other, each would have a mean
# of its own over its part of the window.
_ALL = "sum by (namespace, function) (surgekit_function_in_flight + surgekit_function_queued)[$window:$step]"


@dataclass(frozen=True)
class Asked:
    """One function and how its concurrency is found."""

    name: str  # of the ComboFunc: namespace/name
    namespace: str
    function: str
    window_s: float
    headroom: float = 1.0  # factor on what was measured
    query: str | None = None  # own PromQL; $namespace, $function and $window are filled in; one series


@dataclass(frozen=True)
class Target:
    """Concurrency to have: what was measured, times headroom, rounded up."""

    concurrency: int
    measured: float
    headroom: float
    window_s: float


def load_query(window_s: float, step_s: float) -> str:
    """The mean concurrency of every function the balancers serve."""
    return f"avg_over_time({_filled(window_s, step_s)})"


def coverage_query(window_s: float, step_s: float) -> str:
    """How many steps of the window have a value: too few are no picture of it."""
    return f"count_over_time({_filled(window_s, step_s)})"


def own_query(asked: Asked) -> str:
    filled = {"namespace": asked.namespace, "function": asked.function, "window": duration(asked.window_s)}
    return Template(asked.query or "").safe_substitute(filled)


def decide(asked: Asked, measured: float, steps: float, step_s: float) -> Target | str:
    """The target, or why there is none. `steps` of the window had a value."""
    expected = max(1.0, asked.window_s / step_s)
    if steps < _ENOUGH * expected:
        return f"{steps:.0f} of about {expected:.0f} scrapes in the last {asked.window_s:g} s"
    if not 0 <= measured <= _MOST:  # NaN is neither
        return f"a concurrency of {measured!r} cannot be"
    concurrency = math.ceil(measured * asked.headroom - _CRUMB)
    return Target(concurrency, measured, asked.headroom, asked.window_s)


def _filled(window_s: float, step_s: float) -> str:
    return Template(_ALL).substitute(window=duration(window_s), step=duration(step_s))
