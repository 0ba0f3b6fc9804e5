"""Fit the node model to measured rounds, and say how far the emulation is from other rounds.

The fit and the errors play `kwok.node_model.NodeModel` itself, in virtual time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from experiments.node_model.plan import CREATE, DELETE, RESIZE, Cell
from kwok.node_model import Created, NodeModel, Resized
from kwok.scenario import Physics, Scenario

__all__ = ["Fit", "Samples", "emulated_s", "fit", "fit_paper", "report"]

# Of each cell, of each repetition: seconds until each of its pods was done, in order.
Samples = Mapping[Cell, Sequence[Sequence[float]]]
_FOR_EVER_S = 1e9


@dataclass(frozen=True)
class Fit:
    """What the emulation needs to play the node."""

    tau_create_s: float
    tau_resize_s: float
    physics: Physics


def emulated_s(cell: Cell, fitted: Fit) -> float:
    """Seconds until the emulation is done with a cell."""
    scenario = Scenario.equal(
        tau_create_s=fitted.tau_create_s, tau_resize_s=fitted.tau_resize_s, physics=fitted.physics
    )
    model = NodeModel(scenario)
    for number in range(cell.pods):
        if cell.what == CREATE:
            model.bind(f"p{number}", "n", cell.containers, [], 0.0)
        else:
            model.resize(f"p{number}", "n", 1, 0.0)
    done = (event for event in model.advance(_FOR_EVER_S) if isinstance(event, Created | Resized))
    return max(event.at_s for event in done)


def fit(samples: Samples) -> Fit:
    """Least squares of the logarithms of emulated / measured, over the medians of the cells."""
    extra, *creation = _fitted(
        _of(samples, CREATE), lambda p: Physics(p[1], extra_container=p[0], creation_latency=p[2]),
        bounds=([0.0, 1.0, 0.0], [2.0, 16.0, 0.9]), starts=[(0.3, c, 0.1) for c in (1.1, 1.5, 2.5)],
    )  # fmt: skip
    resize = _fitted(
        _of(samples, RESIZE), lambda p: Physics(1.0, p[0], resize_latency=p[1]),
        bounds=([1.0, 0.0], [16.0, 0.9]), starts=[(c, 0.1) for c in (1.1, 1.5, 2.5)],
    )  # fmt: skip
    physics = Physics(creation[0], resize[0], extra, creation[1], resize[1])
    return _with_taus(samples, physics)


def fit_paper(samples: Samples) -> Fit:
    """The paper's form: k pods of m containers take k * m * tau_c, resizes tau_u however many there are."""
    return _with_taus(samples, Physics())


def report(fitted: Samples, held_out: Samples) -> dict[str, Any]:
    """The fit to some rounds, and the emulation's error on the medians of the others."""
    ours, paper = fit(fitted), fit_paper(fitted)
    seen = {cell: _quartiles([times[-1] for times in each]) for cell, each in held_out.items()}
    before = {cell: _quartiles([times[-1] for times in each]) for cell, each in fitted.items()}
    timed = [cell for cell in held_out if cell.what != DELETE]
    error = {cell: _off(emulated_s(cell, ours), seen[cell][1]) for cell in timed}
    paper_error = {cell: _off(emulated_s(cell, paper), seen[cell][1]) for cell in timed}
    again = {cell: _off(before[cell][1], seen[cell][1]) for cell in timed}
    figures: dict[str, Any] = {}
    for prefix, errors in (("", error), ("paper_", paper_error), ("repeated_", again)):
        creations = [e for cell, e in errors.items() if cell.what == CREATE]
        figures |= {
            f"{prefix}create_error_mean": statistics.mean(creations),
            f"{prefix}create_error_worst": max(creations),
            f"{prefix}resize_error_mean": statistics.mean(
                e for cell, e in errors.items() if cell.what == RESIZE
            ),
            f"{prefix}containers_error_mean": statistics.mean(
                e for cell, e in errors.items() if cell.what == CREATE and cell.containers > 1
            ),
        }
    figures |= {"tau_create_s": ours.tau_create_s, "tau_resize_s": ours.tau_resize_s}
    figures |= asdict(ours.physics) | {"paper_tau_create_s": paper.tau_create_s}
    cells = {}
    for cell, each in held_out.items():
        low, median, high = seen[cell]
        cells[cell.name] = {
            "measured_s": _rounded({"median": median, "lower_quartile": low, "upper_quartile": high}),
            "repetitions": len(each),
            "fitted_rounds_s": before[cell][1],
            "first_over_last": statistics.median(times[0] / times[-1] for times in each),
        }
        if cell in error:
            cells[cell.name] |= {
                "emulated_s": emulated_s(cell, ours),
                "error": error[cell],
                "paper_s": emulated_s(cell, paper),
                "paper_error": paper_error[cell],
            }
    return _rounded(figures) | {"cells": {name: _rounded(cell) for name, cell in cells.items()}}


def _fitted(
    medians: Mapping[Cell, float],
    physics: Callable[[Sequence[float]], Physics],
    bounds: tuple[list[float], list[float]],
    starts: Sequence[Sequence[float]],
) -> list[float]:
    """The parameters of `physics` that fit best, with the tau that goes with them."""

    def residuals(parameters: Sequence[float]) -> Any:
        logs = np.array(_log_ratios(medians, Fit(1.0, 1.0, physics([float(p) for p in parameters]))))
        return logs - logs.mean()  # tau multiplies all times, so the best one takes the mean away

    # A kink where k = side_by_side has several minima; the best of a few starts will do.
    solutions = [least_squares(residuals, start, bounds=bounds, diff_step=1e-4) for start in starts]
    best = min(solutions, key=lambda solution: solution.cost)
    return [float(p) for p in best.x]


def _with_taus(samples: Samples, physics: Physics) -> Fit:
    alone = Fit(1.0, 1.0, physics)
    create, resize = (
        math.exp(statistics.mean(_log_ratios(_of(samples, what), alone))) for what in (CREATE, RESIZE)
    )
    return Fit(create, resize, physics)


def _log_ratios(medians: Mapping[Cell, float], fitted: Fit) -> list[float]:
    return [math.log(median / emulated_s(cell, fitted)) for cell, median in medians.items()]


def _of(samples: Samples, what: str) -> dict[Cell, float]:
    """Median seconds until the last pod was done, of the cells of a kind."""
    return {
        cell: statistics.median(times[-1] for times in each)
        for cell, each in samples.items()
        if cell.what == what
    }


def _quartiles(seconds: Sequence[float]) -> tuple[float, float, float]:
    low, median, high = np.quantile(seconds, (0.25, 0.5, 0.75))
    return float(low), float(median), float(high)


def _off(predicted_s: float, measured_s: float) -> float:
    return abs(predicted_s / measured_s - 1)


def _rounded(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in figures.items()}
