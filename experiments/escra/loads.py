"""When requests are due: the paper's four workloads (section VI-A), scaled to this machine.

The paper sends 400 a second (fixed), 300 at random (exponential), 50 and for 10 s of every 20 another 600 at
random (burst), and a datacenter trace between 56 and 548. Here a rate is a share of the application's fixed
rate, with the same proportions. The trace is of one function of Azure's trace of 2019: invocations in each
minute, a minute played in a second (the paper plays Alibaba's ten times as fast; ten times of this one would
hardly change within a run).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from experiments.client_trace import eligible, read
from kwok.errors import TrafficError

__all__ = ["LOADS", "TRACE", "arrivals_s", "trace_rates"]

FIXED, EXPONENTIAL, BURST, TRACE = "fixed", "exponential", "burst", "trace"
LOADS = (FIXED, EXPONENTIAL, BURST, TRACE)
EXTRACT = Path(__file__).parents[1] / "data" / "azure2019_minutes.csv"
_BURST_EVERY_S, _BURST_S = 20.0, 10.0
# Of the fixed rate: the paper's numbers over 400.
_EXPONENTIAL, _BURST_BASE, _BURST_MORE, _TRACE_LEAST, _TRACE_MOST = 0.75, 0.125, 1.5, 0.14, 1.37


def arrivals_s(
    load: str, rate_per_s: float, duration_s: float, seed: int, rates: Sequence[float]
) -> list[float]:
    """When each request is due, in seconds from the beginning. `rates` are the trace's (`trace_rates`)."""
    draw = random.Random(f"escra/{load}/{seed}")
    if load == FIXED:
        return [i / rate_per_s for i in range(int(duration_s * rate_per_s))]
    if load == EXPONENTIAL:
        return list(_random(draw, lambda _: _EXPONENTIAL * rate_per_s, _EXPONENTIAL * rate_per_s, duration_s))
    if load == BURST:
        base = [i / (_BURST_BASE * rate_per_s) for i in range(int(duration_s * _BURST_BASE * rate_per_s))]
        most = _BURST_MORE * rate_per_s
        burst = _random(draw, lambda at: most if at % _BURST_EVERY_S < _BURST_S else 0.0, most, duration_s)
        return sorted([*base, *burst])
    most = _TRACE_MOST * rate_per_s
    return list(_random(draw, lambda at: rates[int(at) % len(rates)] * rate_per_s, most, duration_s))


def trace_rates(data: Path | None, seed: int) -> list[float]:
    """Each second's share of the fixed rate: a function of the trace, from a minute on, both drawn."""
    series = read(EXTRACT) if data is None else [s for s in read(data / "invocations.csv") if eligible(s)]
    if not series:
        raise TrafficError(f"{data}: no function is eligible")
    draw = random.Random(f"escra/trace/{seed}")
    counts = draw.choice(sorted(series, key=lambda s: s.function)).counts
    first, low, high = draw.randrange(len(counts)), min(counts), max(counts)
    share = (_TRACE_MOST - _TRACE_LEAST) / max(high - low, 1)
    return [_TRACE_LEAST + (count - low) * share for count in (*counts[first:], *counts[:first])]


def _random(
    draw: random.Random, rate_at: Callable[[float], float], most: float, duration_s: float
) -> Iterator[float]:
    """A Poisson process whose rate changes, thinned from one with the highest rate."""
    at = 0.0
    for _ in itertools.count():
        at += draw.expovariate(most)
        if at >= duration_s:
            return
        if draw.random() * most < rate_at(at):
            yield at
