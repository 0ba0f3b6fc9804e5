"""Fit the node model to measured rounds: `kwok.node_model.NodeModel` itself, played in virtual time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import least_squares, minimize_scalar

from experiments.node_model.plan import CREATE, DELETE, RESIZE, Cell
from kwok.node_model import Created, NodeModel, Resized
from kwok.physics import Physics
from kwok.scenario import Scenario

__all__ = [
    "Emulation",
    "Rounds",
    "Samples",
    "first_over_last",
    "fit",
    "fit_paper",
    "fit_without_latency",
    "median_s",
]

Rounds = Sequence[Sequence[float]]  # of each repetition: seconds until each pod was done, in order
Samples = Mapping[Cell, Rounds]
_FOR_EVER_S = 1e9
_SEEDS = range(15)
_WIDEST_SPREAD = 0.5


@dataclass(frozen=True)
class Emulation:
    """A node of the emulation."""

    tau_create_s: float
    tau_resize_s: float
    physics: Physics

    def play(self, cell: Cell) -> Rounds:
        """Rounds with other luck; one where luck plays no part."""
        return [self._round(cell, seed) for seed in (_SEEDS if self.physics.spread else _SEEDS[:1])]

    def scenario(self, seed: int = 0) -> Scenario:
        """Nodes that are all like this one."""
        scenario = Scenario.equal(
            tau_create_s=self.tau_create_s, tau_resize_s=self.tau_resize_s, physics=self.physics
        )
        return replace(scenario, seed=seed)

    def _round(self, cell: Cell, seed: int) -> list[float]:
        model = NodeModel(self.scenario(seed))
        for number in range(cell.pods):
            if cell.what == CREATE:
                model.bind(f"p{number}", "n", cell.containers, [], 0.0)
            else:
                model.resize(f"p{number}", "n", 1, 0.0)
        events = model.advance(_FOR_EVER_S)
        return [event.at_s for event in events if isinstance(event, Created | Resized)]


def median_s(rounds: Rounds) -> float:
    """Seconds until the last pod was done."""
    return statistics.median(times[-1] for times in rounds)


def first_over_last(rounds: Rounds) -> float:
    return statistics.median(times[0] / times[-1] for times in rounds)


def fit(samples: Samples) -> Emulation:
    """Least squares of the logarithms of emulated / measured, over the medians of the cells."""
    extra, *creation = _fitted(
        _medians_s(samples, CREATE), lambda p: Physics(p[1], extra_container=p[0], creation_latency=p[2]),
        bounds=([0.0, 1.0, 0.0], [2.0, 16.0, 0.9]), starts=[(0.3, c, 0.1) for c in (1.2, 2.5)],
    )  # fmt: skip
    resize = _fitted(
        _medians_s(samples, RESIZE), lambda p: Physics(1.0, p[0], resize_latency=p[1]),
        bounds=([1.0, 0.0], [16.0, 0.9]), starts=[(c, 0.1) for c in (1.2, 2.5)],
    )  # fmt: skip
    physics = Physics(creation[0], resize[0], extra, creation[1], resize[1])
    return _with_taus(samples, replace(physics, spread=_spread(samples, physics)))


def fit_without_latency(samples: Samples) -> Emulation:
    """The simpler form: all work contends, and equal pods finish together."""
    starts = (1.2, 2.5)
    extra, creations = _fitted(
        _medians_s(samples, CREATE), lambda p: Physics(p[1], extra_container=p[0]),
        bounds=([0.0, 1.0], [2.0, 16.0]), starts=[(0.3, c) for c in starts],
    )  # fmt: skip
    (resizes,) = _fitted(
        _medians_s(samples, RESIZE), lambda p: Physics(1.0, p[0]),
        bounds=([1.0], [16.0]), starts=[(c,) for c in starts],
    )  # fmt: skip
    return _with_taus(samples, Physics(creations, resizes, extra))


def fit_paper(samples: Samples) -> Emulation:
    """The paper's form: k pods of m containers take k * m * tau_c, resizes tau_u however many there are."""
    return _with_taus(samples, Physics())


def _fitted(
    medians_s: Mapping[Cell, float],
    physics: Callable[[Sequence[float]], Physics],
    bounds: tuple[list[float], list[float]],
    starts: Sequence[Sequence[float]],
) -> list[float]:
    """The parameters of `physics` that fit best, with the tau that goes with them."""

    def residuals(parameters: Sequence[float]) -> Any:
        logs = np.array(_log_ratios(medians_s, physics([float(p) for p in parameters])))
        return logs - logs.mean()  # tau multiplies all times, so the best one takes the mean away

    # The kink at k = side_by_side makes several minima: take the best of a few starts.
    solutions = [least_squares(residuals, start, bounds=bounds, diff_step=1e-4) for start in starts]
    return [float(p) for p in min(solutions, key=lambda solution: solution.cost).x]


def _spread(samples: Samples, physics: Physics) -> float:
    """The spread with which the first pod precedes the last by as much as measured.

    It hardly changes when the last is done, so it is found after the other parameters.
    """
    together = {cell: rounds for cell, rounds in samples.items() if cell.pods > 1 and cell.what != DELETE}
    kinds = {Cell(cell.what, cell.pods) for cell in together}  # the number of containers does not matter

    def off(spread: float) -> float:
        emulation = Emulation(1.0, 1.0, replace(physics, spread=spread))
        ratios = {kind: first_over_last(emulation.play(kind)) for kind in kinds}
        return sum(
            math.log(ratios[Cell(cell.what, cell.pods)] / first_over_last(rounds)) ** 2
            for cell, rounds in together.items()
        )

    found = minimize_scalar(off, bounds=(0.0, _WIDEST_SPREAD), options={"xatol": 0.005})
    return float(found.x) if found.x > 0.01 else 0.0


def _with_taus(samples: Samples, physics: Physics) -> Emulation:
    create_s, resize_s = (
        math.exp(statistics.mean(_log_ratios(_medians_s(samples, what), physics)))
        for what in (CREATE, RESIZE)
    )
    return Emulation(create_s, resize_s, physics)


def _log_ratios(medians_s: Mapping[Cell, float], physics: Physics) -> list[float]:
    """Measured times over those of a node on which a creation and a resize alone take a second."""
    unit = Emulation(1.0, 1.0, physics)
    return [math.log(seconds / median_s(unit.play(cell))) for cell, seconds in medians_s.items()]


def _medians_s(samples: Samples, what: str) -> dict[Cell, float]:
    return {cell: median_s(rounds) for cell, rounds in samples.items() if cell.what == what}
