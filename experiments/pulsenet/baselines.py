"""How the other systems set the number of regular instances.

Each has the ideas that are not the paper's own: a queue in which requests wait for any instance that becomes
free (not only for the one created for them), removal of what is not ready first, and creations that start
without a poll when a function has nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from burst_plane.scaling import Concurrency, Parameters, Scaler
from experiments.pulsenet.model import Floats
from experiments.pulsenet.simulation import Fn, Simulation

__all__ = ["BIN_S", "Asynchronous", "Forecaster", "Predicted", "Synchronous", "WarmPool"]

BIN_S = 10.0  # of a predictor's series
# A claim binds a spare pod by writes to the API server, and endpoints follow. Not measured: taken as short,
# which is good for the warm pool.
_ADOPT_S = 0.05


class Asynchronous:
    """Knative's concurrency autoscaler, panic off; `burst_plane.scaling`, which is tested against it."""

    def __init__(self, window_s: float = 60.0, target_share: float = 0.7) -> None:
        self._parameters = Parameters(window_s=window_s, target_share=target_share, keepalive_s=0.0)

    def begin(self, world: Simulation) -> None:
        self._world = world
        for fn in world.functions:
            fn.memo = _Memo(Scaler(self._parameters))

    def woken(self, fn: Fn, now_s: float) -> None:
        fn.touch(now_s)
        fn.memo.busy_s, fn.memo.queued_s = fn.busy_s, fn.queued_s

    def missed(self, fn: Fn, now_s: float) -> None:
        """From zero, the activator reports at once, and the autoscaler decides at once."""
        if fn.asked == 0:
            fn.memo.scaler.record(Concurrency(0.0, 1.0, 0.0), now_s)
            self.decide(fn, now_s)

    def second(self, fn: Fn, now_s: float) -> bool:
        memo: _Memo = fn.memo
        busy_s, memo.busy_s = fn.busy_s - memo.busy_s, fn.busy_s
        queued_s, memo.queued_s = fn.queued_s - memo.queued_s, fn.queued_s
        # Pods report, and the activator does for requests; nobody reports a function that has neither.
        if fn.ready or busy_s or queued_s:
            memo.scaler.record(Concurrency(busy_s, queued_s, 0.0), now_s)
        return bool(fn.busy or fn.idle or fn.queue or fn.creating or fn.asked)

    def decide(self, fn: Fn, now_s: float) -> None:
        decision = fn.memo.scaler.decide(fn.ready, fn.asked, now_s)
        if decision.valid:
            self._world.scale(fn, decision.action, now_s)

    def every_second(self, now_s: float) -> None:
        pass


class _Memo:
    __slots__ = ("busy_s", "queued_s", "scaler", "wanted")

    def __init__(self, scaler: Scaler) -> None:
        self.scaler, self.busy_s, self.queued_s, self.wanted = scaler, 0.0, 0.0, 0


class Synchronous:
    """Create for each request that finds nothing; keep what is idle for a time."""

    def __init__(self, keepalive_s: float = 600.0) -> None:
        self._keepalive_s = keepalive_s

    def begin(self, world: Simulation) -> None:
        self._world = world

    def woken(self, fn: Fn, now_s: float) -> None:
        pass

    def missed(self, fn: Fn, now_s: float) -> None:
        if len(fn.creating) < len(fn.queue):
            self._world.create(fn, now_s)

    def second(self, fn: Fn, now_s: float) -> bool:
        self._world.expire(fn, now_s - self._keepalive_s, now_s)
        return bool(fn.busy or fn.idle or fn.queue or fn.creating)

    def decide(self, fn: Fn, now_s: float) -> None:
        pass

    def every_second(self, now_s: float) -> None:
        pass


class WarmPool(Synchronous):
    """Spare pods of each function, as agent-sandbox's SandboxWarmPool keeps them: a request that finds
    nothing takes one, and another is created."""

    def __init__(self, keepalive_s: float = 600.0, spares: int = 1) -> None:
        super().__init__(keepalive_s)
        self._spares = spares

    def begin(self, world: Simulation) -> None:
        super().begin(world)
        for fn in world.functions:
            for _ in range(self._spares):
                world.create(fn, 0.0, spare=True)

    def missed(self, fn: Fn, now_s: float) -> None:
        if len(fn.creating) >= len(fn.queue):
            return
        if fn.spares:
            self._world.adopt(fn, _ADOPT_S, now_s)
            self._world.create(fn, now_s, spare=True)
        else:
            self._world.create(fn, now_s)


class Forecaster(Protocol):
    lags: int

    def predict(self, series: Floats) -> Floats:
        """Rows are functions: requests at once in the last `lags` bins -> in the next bins."""


class Predicted(Asynchronous):
    """At least what a model expects of the next minute; Knative's own number is the floor."""

    def __init__(self, forecaster: Forecaster, history: Floats, window_s: float, target_share: float) -> None:
        super().__init__(window_s, target_share)
        self._forecaster, self._target = forecaster, target_share
        self._series = history[:, -forecaster.lags :].copy()

    def begin(self, world: Simulation) -> None:
        super().begin(world)
        self._seen = np.zeros(len(world.functions))
        self._predict(world.functions, 0.0)

    def every_second(self, now_s: float) -> None:
        if round(now_s) % round(BIN_S):
            return
        functions = self._world.functions
        for fn in functions:
            fn.touch(now_s)
        total = np.array([fn.busy_s + fn.queued_s for fn in functions])
        self._series = np.column_stack([self._series[:, 1:], (total - self._seen) / BIN_S])
        self._seen = total
        self._predict(functions, now_s)

    def _predict(self, functions: Sequence[Fn], now_s: float) -> None:
        peaks = self._forecaster.predict(self._series).max(axis=1)
        self._world.predictions += 1
        for fn, peak in zip(functions, peaks.tolist(), strict=True):
            # Less than one request in a hundred bins is nothing.
            fn.memo.wanted = math.ceil(peak / self._target) if peak > 0.01 else 0
            if fn.memo.wanted and fn.index not in self._world.awake:
                self._world.awake[fn.index] = fn
                self.woken(fn, now_s)

    def second(self, fn: Fn, now_s: float) -> bool:
        return super().second(fn, now_s) or fn.memo.wanted > 0

    def decide(self, fn: Fn, now_s: float) -> None:
        decision = fn.memo.scaler.decide(fn.ready, fn.asked, now_s)
        reactive = decision.action if decision.valid else 0
        self._world.scale(fn, max(reactive, fn.memo.wanted), now_s)
