"""Some thousand curves of score over replicas, to be weighed against few, noisy points.

Seven points with 3 % noise do not show where a curve is farthest above its chord: around the knee it is
almost straight. So the search starts from how scores saturate, and lets the points choose among the curves.

All curves are made of h(t) = t / (t^q + b^q)^(1/q) over t = replicas / right: q = 1 is Amdahl's hyperbola,
which fig. 2 of the paper follows; a large q is linear up to b, then flat. Some are h and h^2 on a grid (with
a closed loop the score is throughput squared over clients, so squares are as common), some mixtures of two,
with a linear share, a power of t, a part that is there at any size or a fall behind the peak, some three
straight pieces, and some rise late: a few replicas do little, then comes a steep part, a cliff or stairs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEAST", "grid", "knees", "log_prior", "log_values", "log_values_at"]

Array = NDArray[np.float64]
Table = NDArray[np.float32]

_BENDS = (1.0, 1.6, 2.5, 6.0, 100.0)
_MIXED = 4000
_KINKED = 3000
_LATE = 5000
_PRIOR = {"single": 0.35, "mixed": 0.3, "kinked": 0.12, "late": 0.23}
LEAST = 0.02  # floor of a score, as a share of the highest: the log of 0 would rule out every curve
# A curve that is nowhere 5 % of its height above its chord has no knee: every replica is worth as much as the
# first.
_STRAIGHT = 0.05
# A curve that gains less than 10 % from its left end is flat: the left end is as good.
_FLAT = 0.10


@dataclass(frozen=True)
class _Curves:
    """One row a curve: (offset min(t / b1, 1)^rise + (1 - offset) ((w h(b1) + (1 - w) h(b2)) (1 - linear) +
    linear t)^power t^tail / (1 + (b3 / t)^late)) / (1 + (fall t)^2). With a `step` t goes up in steps."""

    b1: Array
    b2: Array
    w: Array
    q: Array
    power: Array
    linear: Array
    tail: Array
    offset: Array
    fall: Array
    b3: Array
    late: Array
    rise: Array
    step: Array
    prior: Array


def _single() -> _Curves:
    scales = np.geomspace(0.004, 4.0, 110)
    b, q, power = (a.ravel() for a in np.meshgrid(scales, _BENDS, (1.0, 2.0)))
    none = np.zeros(len(b))
    return _Curves(
        b, b, none + 1.0, q, power, none, none, none, none, none + 1.0, none, none, none,
        none + _PRIOR["single"] / len(b),
    )  # fmt: skip


def _mixed(rng: np.random.Generator) -> _Curves:
    n = _MIXED

    def some(share: float, low: float, high: float, otherwise: float = 0.0) -> Array:
        return np.where(rng.random(n) < share, rng.uniform(low, high, n), otherwise)

    b1 = np.exp(rng.uniform(np.log(0.006), np.log(0.9), n))
    return _Curves(
        b1=b1,
        b2=np.minimum(b1 * np.exp(rng.uniform(0.0, np.log(40.0), n)), 4.0),
        w=some(0.5, 0.15, 1.0, otherwise=1.0),
        q=rng.choice(_BENDS, n, p=(0.3, 0.15, 0.15, 0.1, 0.3)),
        power=rng.choice((1.0, 1.0, 1.5, 2.0), n),
        linear=some(0.5, 0.0, 0.35),
        tail=some(0.25, 0.0, 0.7),
        offset=some(0.4, 0.0, 0.6),
        fall=some(0.1, 0.5, 2.5),
        b3=np.ones(n),
        late=np.zeros(n),
        rise=np.zeros(n),
        step=np.zeros(n),
        prior=np.full(n, _PRIOR["mixed"] / n),
    )


def _kinked(rng: np.random.Generator) -> _Curves:
    n = _KINKED
    kink1 = rng.uniform(0.03, 0.5, n)
    kink2 = kink1 + rng.uniform(0.1, 1.0, n) * (1.0 - kink1)
    slope2 = rng.uniform(0.1, 0.6, n)  # the first slope is 1
    slope3 = slope2 * rng.uniform(0.0, 0.5, n)
    # As a mixture of two curves that are linear to a kink and then flat, and a line.
    rise1, rise2 = (1.0 - slope2) * kink1, (slope2 - slope3) * kink2
    none = np.zeros(n)
    return _Curves(
        kink1, kink2, rise1 / (rise1 + rise2), none + _BENDS[-1], none + 1.0,
        slope3 / (rise1 + rise2 + slope3), none, none, none, none + 1.0, none, none, none,
        none + _PRIOR["kinked"] / n,
    )  # fmt: skip


def _late(rng: np.random.Generator) -> _Curves:
    """Curves that rise late: Hill's function, alone or times h."""
    n = _LATE

    def some(share: float, low: float, high: float, otherwise: float = 0.0) -> Array:
        return np.where(rng.random(n) < share, rng.uniform(low, high, n), otherwise)

    b = np.exp(rng.uniform(np.log(0.02), np.log(0.65), n))  # later ones have no knee before the right end
    none = np.zeros(n)
    return _Curves(
        b1=b,
        b2=b,
        w=none + 1.0,
        q=rng.choice(_BENDS, n),
        power=rng.choice((0.0, 0.0, 1.0, 2.0), n),
        linear=none,
        tail=some(0.3, 0.0, 0.5),
        offset=some(0.6, 0.0, 0.6),
        fall=some(0.1, 0.5, 2.5),
        b3=b * np.exp(rng.uniform(-0.3, 0.3, n)),
        late=np.exp(rng.uniform(0.0, np.log(100.0), n)),
        rise=some(0.5, 0.0, 2.0),
        step=some(0.15, 0.03, 0.25),
        prior=np.full(n, _PRIOR["late"] / n),
    )


@lru_cache(maxsize=1)
def _curves() -> _Curves:
    rng = np.random.default_rng(5)  # a fixed random draw, since a grid over six parameters would be too large
    parts = (_single(), _mixed(rng), _kinked(rng), _late(rng))
    return _Curves(**{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(_Curves)})


def _log_values(t: Array) -> Array:
    """Every curve (rows) at the places `t` (columns)."""
    c = _curves()

    def row(name: str) -> Array:
        return np.asarray(getattr(c, name)[:, None])

    step = row("step")
    x = np.where(step > 0, np.ceil(t[None, :] / np.where(step > 0, step, 1.0) - 1e-9) * step, t[None, :])

    def saturating(b: Array) -> Array:
        return np.asarray(np.exp(-np.logaddexp(0.0, row("q") * np.log(b / x)) / row("q")))

    mixture = row("w") * saturating(row("b1")) + (1.0 - row("w")) * saturating(row("b2"))
    rising = (mixture * (1.0 - row("linear")) + row("linear") * x) ** row("power") * x ** row("tail")
    rising *= np.exp(-np.logaddexp(0.0, row("late") * np.log(row("b3") / x)))
    early = row("offset") * np.minimum(x / row("b1"), 1.0) ** row("rise")
    values = np.log((early + (1.0 - row("offset")) * rising) / (1.0 + (row("fall") * x) ** 2))
    # As for measured scores: the log of next to nothing would rule the curve out.
    return np.asarray(np.maximum(values, values.max(axis=1, keepdims=True) + np.log(LEAST)))


@lru_cache(maxsize=1)
def grid() -> Array:
    """Places t: half a percent apart (a quarter of the tolerance), finer near 0, coarser beyond the range."""
    return np.concatenate(
        [np.geomspace(0.001, 0.018, 16), np.arange(4, 201) / 200.0, np.arange(21, 61) / 20.0]
    )


@lru_cache(maxsize=1)
def log_values() -> Table:
    """Every curve on the grid."""
    return _log_values(grid()).astype(np.float32)


def log_values_at(t: Array) -> Array:
    """Every curve at any places, interpolated on the grid: a hundred times faster than the formula."""
    places, table = grid(), log_values()
    t = np.clip(t, places[0], places[-1])
    after = np.clip(np.searchsorted(places, t), 1, len(places) - 1)
    share = (t - places[after - 1]) / (places[after] - places[after - 1])
    return np.asarray(table[:, after - 1] * (1.0 - share) + table[:, after] * share)


@lru_cache(maxsize=1)
def log_prior() -> Array:
    return np.asarray(np.log(_curves().prior))


@lru_cache(maxsize=64)
def knees(left: int, right: int) -> Array:
    """The t at which each curve is farthest above its chord: Kneedle's knee of a curve known everywhere."""
    start = left / right
    inside = (grid() > start) & (grid() <= 1.0)
    t = np.concatenate([[start], grid()[inside]])
    first = log_values_at(np.array([start]))
    values = np.exp(np.concatenate([first, log_values()[:, inside]], axis=1))
    low, high = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
    above = (values - low) / np.maximum(high - low, 1e-12) - (t - start)[None, :] / (1.0 - start)
    at = np.where(above.max(axis=1) < _STRAIGHT, 1.0, t[above.argmax(axis=1)])
    return np.asarray(np.where(high[:, 0] < values[:, 0] * (1.0 + _FLAT), start, at))
