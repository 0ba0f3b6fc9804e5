"""The two predictors that Joosen et al. found best (paper, section 5): linear regression and NHITS. Pure.

Both learn from the hour before, over all functions together; a series is divided by its own mean, so that
rare and busy functions weigh alike.
"""

from __future__ import annotations

import numpy as np

from experiments.pulsenet.model import Floats

__all__ = ["LinearRegression", "Nhits", "windows"]

_LEAST = 1e-3  # requests at once: what is divided by is no smaller
_RIDGE = 1e-2


def windows(series: Floats, lags: int, horizon: int, stride: int) -> tuple[Floats, Floats]:
    """(what was, what came) of every function with traffic."""
    busy = series[series.sum(axis=1) > 0]
    if not len(busy) or busy.shape[1] < lags + horizon:
        return np.zeros((0, lags)), np.zeros((0, horizon))
    cut = np.lib.stride_tricks.sliding_window_view(busy, lags + horizon, axis=1)[:, ::stride]
    flat = cut.reshape(-1, lags + horizon)
    return flat[:, :lags], flat[:, lags:]


def _scale(was: Floats) -> Floats:
    return np.asarray(np.maximum(was.mean(axis=1, keepdims=True), _LEAST), float)


def _expected(was: Floats, found: Floats) -> Floats:
    """Nothing after nothing."""
    return np.asarray(np.maximum(found, 0.0) * (was.sum(axis=1, keepdims=True) > 0), float)


class LinearRegression:
    """One matrix from lags to horizon, by ridge regression."""

    def __init__(self, series: Floats, lags: int = 30, horizon: int = 6) -> None:
        self.lags, self._horizon = lags, horizon
        was, came = windows(series, lags, horizon, 1)
        scale = _scale(was)
        inputs = np.column_stack([was / scale, np.ones(len(was))])
        gram = inputs.T @ inputs + _RIDGE * max(len(was), 1) * np.eye(lags + 1)
        self._weights = np.linalg.solve(gram, inputs.T @ np.minimum(came / scale, 100.0))

    def predict(self, series: Floats) -> Floats:
        was = series[:, -self.lags :]
        scale = _scale(was)
        found = np.column_stack([was / scale, np.ones(len(was))]) @ self._weights
        return _expected(was, found * scale)


class Nhits:
    """Neural hierarchical interpolation (Challu et al., AAAI 2023), small, in numpy: three stacks of one
    block. Each pools its input (8, 4, 1), passes it through a layer of rectifiers, and gives few coefficients
    that are interpolated to the window and to the horizon; the next stack sees what was not explained."""

    def __init__(
        self,
        series: Floats,
        lags: int = 60,
        horizon: int = 6,
        hidden: int = 32,
        steps: int = 300,
        seed: int = 1,
    ) -> None:
        self.lags, self._horizon = lags, horizon
        drawn = np.random.default_rng(seed)
        self._stacks = [
            _Block(lags, horizon, pool, knots, hidden, drawn)
            for pool, knots in ((8, 1), (4, 2), (1, horizon))
        ]
        was, came = windows(series, lags, horizon, 3)
        if not len(was):
            return
        scale = _scale(was)
        inputs, targets = was / scale, np.minimum(came / scale, 100.0)
        for step in range(1, steps + 1):
            rows = drawn.integers(0, len(inputs), 256)
            self._learn(inputs[rows], targets[rows], step)

    def predict(self, series: Floats) -> Floats:
        was = series[:, -self.lags :]
        scale = _scale(was)
        left, total = was / scale, np.zeros((len(was), self._horizon))
        for block in self._stacks:
            backcast, forecast = block.forward(left)
            left, total = left - backcast, total + forecast
        return _expected(was, total * scale)

    def _learn(self, inputs: Floats, targets: Floats, step: int) -> None:
        """One step of Adam on the Huber loss: the series have rare, high peaks."""
        left, total = inputs, np.zeros_like(targets)
        for block in self._stacks:
            backcast, forecast = block.forward(left)
            left, total = left - backcast, total + forecast
        to_total = np.clip(total - targets, -1.0, 1.0) / len(inputs)
        to_left = np.zeros_like(inputs)
        for block in reversed(self._stacks):
            to_left = to_left + block.backward(-to_left, to_total, step)


class _Block:
    def __init__(
        self, lags: int, horizon: int, pool: int, knots: int, hidden: int, drawn: np.random.Generator
    ) -> None:
        self._pool, self._pooled = pool, -(-lags // pool)
        self._lags = lags
        self._back = _interpolation(max(lags // (pool * 2), 1), lags)
        self._fore = _interpolation(knots, horizon)
        outputs = len(self._back) + len(self._fore)
        sizes = ((self._pooled, hidden), (hidden, hidden), (hidden, outputs))
        self._weights = [drawn.normal(0, np.sqrt(2 / rows), (rows, columns)) for rows, columns in sizes]
        self._weights[-1] *= 0.1
        self._biases = [np.zeros(columns) for _, columns in sizes]
        self._moments = [
            (np.zeros_like(p), np.zeros_like(p))
            for pair in zip(self._weights, self._biases, strict=True)
            for p in pair
        ]

    def forward(self, inputs: Floats) -> tuple[Floats, Floats]:
        padded = np.pad(inputs, ((0, 0), (self._pooled * self._pool - self._lags, 0)), mode="edge")
        cells = padded.reshape(len(inputs), self._pooled, self._pool)
        self._which = cells.argmax(axis=2)
        self._layers = [cells.max(axis=2)]
        for i, (weights, biases) in enumerate(zip(self._weights, self._biases, strict=True)):
            found = self._layers[-1] @ weights + biases
            self._layers.append(np.maximum(found, 0.0) if i < len(self._weights) - 1 else found)
        back, fore = np.split(self._layers[-1], [len(self._back)], axis=1)
        return back @ self._back, fore @ self._fore

    def backward(self, to_backcast: Floats, to_forecast: Floats, step: int) -> Floats:
        """The loss' slope by the inputs, of this block's path alone; and learn."""
        slope = np.column_stack([to_backcast @ self._back.T, to_forecast @ self._fore.T])
        slopes: list[Floats] = []
        for i in reversed(range(len(self._weights))):
            slopes = [self._layers[i].T @ slope, slope.sum(axis=0), *slopes]
            slope = slope @ self._weights[i].T
            if i:
                slope = slope * (self._layers[i] > 0)
        parameters = [p for pair in zip(self._weights, self._biases, strict=True) for p in pair]
        for parameter, found, (first, second) in zip(parameters, slopes, self._moments, strict=True):
            np.copyto(first, 0.9 * first + 0.1 * found)
            np.copyto(second, 0.999 * second + 0.001 * found**2)
            changed = (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
            np.copyto(parameter, parameter - 1e-3 * changed)
        spread = np.zeros((len(slope), self._pooled, self._pool))
        np.put_along_axis(spread, self._which[:, :, None], slope[:, :, None], axis=2)
        return spread.reshape(len(slope), -1)[:, self._pooled * self._pool - self._lags :]


def _interpolation(knots: int, length: int) -> Floats:
    """Rows are knots: what each adds to the points between, linearly."""
    if knots == 1:
        return np.ones((1, length))
    at = np.linspace(0, knots - 1, length)
    return np.maximum(1.0 - np.abs(at[None, :] - np.arange(knots)[:, None]), 0.0)
