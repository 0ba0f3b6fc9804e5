"""Curves with known knees to search on; most are not of the families that the search fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hpa_replacement.decision.policy import Search
from hpa_replacement.search import Ask, Found, Point, ask, observe, start

__all__ = ["FAMILIES", "Curve", "draw_curve", "farthest_above_chord", "run_search"]

Formula = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Curve:
    family: str
    capacity: int
    knee: int
    prominence: float  # how far above the chord the knee is
    formula: Formula

    def __call__(self, replicas: int) -> float:
        return float(self.formula(np.array([float(replicas)]))[0])


def _closed_loop(clients: float, power: float) -> Formula:
    """Machine repair: clients in a closed loop over r pods chosen at random, score = X^2/N (power 2) or X."""
    return lambda r: (r / (r + clients - 1)) ** power * clients ** (power - 1)


def _queueing_network(clients: int, delay: float) -> Formula:
    """Exact mean value analysis of one queue that is r times as fast, with a delay beside it."""

    def throughput(r: float) -> float:
        queue, x = 0.0, 0.0
        for n in range(1, clients + 1):
            residence = (1 + queue) / r
            x = n / (residence + delay)
            queue = x * residence
        return x

    return lambda r: np.array([throughput(float(v)) ** 2 / clients for v in np.atleast_1d(r)])


def _pieces(kink1: float, kink2: float, slope2: float, slope3: float) -> Formula:
    return lambda r: (
        np.minimum(r, kink1)
        + slope2 * np.clip(r - kink1, 0, kink2 - kink1)
        + slope3 * np.maximum(r - kink2, 0)
    )


def _formula(family: str, capacity: int, rng: np.random.Generator) -> Formula:  # noqa: PLR0911 - one a family
    b = capacity * np.exp(rng.uniform(np.log(0.02), np.log(0.5)))
    match family:
        case "hyperbola":
            return lambda r: r / (r + b)
        case "closed loop":
            return _closed_loop(max(b, 2.0), 2.0)
        case "exponential":
            return lambda r: 1 - np.exp(-r / b)
        case "linear, then flat":
            kink, slope = capacity * rng.uniform(0.1, 0.7), rng.uniform(0, 0.15)
            return _pieces(kink, kink, slope, slope)
        case "power":
            exponent = rng.uniform(0.15, 0.7)
            return lambda r: r**exponent
        case "hyperbola with offset":
            offset = rng.uniform(0.1, 0.5)
            return lambda r: offset + (1 - offset) * r / (r + b)
        case "logarithm":
            return lambda r: np.log1p(r / b)
        case "three pieces":
            slope2 = rng.uniform(0.2, 0.5)
            return _pieces(
                capacity * rng.uniform(0.05, 0.3), capacity * rng.uniform(0.4, 0.8),
                slope2, slope2 * rng.uniform(0, 0.4),
            )  # fmt: skip
        case "queueing network":
            # knees where queue and delay are about equal: r * delay ~ clients
            clients = int(rng.integers(5, 40))
            return _queueing_network(clients, clients / max(b, 1.0))
    raise AssertionError(family)


FAMILIES = (
    "hyperbola",
    "closed loop",
    "exponential",
    "linear, then flat",
    "power",
    "hyperbola with offset",
    "logarithm",
    "three pieces",
    "queueing network",
)


def farthest_above_chord(formula: Formula, left: int, right: int) -> tuple[int, float]:
    """The true knee of a fully known curve, by brute force."""
    r = np.arange(left, right + 1.0)
    y = formula(r)
    above = (y - y.min()) / (y.max() - y.min()) - (r - left) / (right - left)
    return int(r[above.argmax()]), float(above.max())


def draw_curve(family: str, seed: int, capacity: int | None = None) -> Curve:
    """A curve with a clear knee: at least 8 % of its height above the chord."""
    for attempt in range(100):
        rng = np.random.default_rng([seed, attempt])
        size = capacity or round(np.exp(rng.uniform(np.log(10), np.log(1000))))
        formula = _formula(family, size, rng)
        knee, prominence = farthest_above_chord(formula, 1, size)
        if prominence >= 0.08:
            return Curve(family, size, knee, prominence, formula)
    raise AssertionError(f"no curve with a knee: {family}, {seed}")


def run_search(
    search: Search, score: Callable[[int], float], left: int, right: int, seed: int = 0
) -> tuple[Found, list[int]]:
    """The answer, and the replicas that were asked for on the way."""
    state = start(search.variant, left, right, seed=seed)
    asked: list[int] = []
    while isinstance(step := ask(state, search.next_step), Ask):
        asked.append(step.replicas)
        state = observe(state, Point(step.replicas, score(step.replicas)))
        if len(asked) > right + 64:
            raise RuntimeError("the search does not end")
    return step, asked
