"""How far the emulation is from rounds it was not fitted to."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from experiments.node_model.model import (
    Emulation,
    Rounds,
    Samples,
    first_over_last,
    fit,
    fit_paper,
    fit_without_latency,
    median_s,
)
from experiments.node_model.plan import CREATE, CREATIONS, DELETE, RESIZE, RESIZES, Cell
from experiments.node_model.scale_out import predict

__all__ = ["PROBE", "probe_figures", "report", "scale_out_figures"]

PROBE = "probe"  # what it had published after a cell


def report(fitted: Samples, held_out: Samples) -> dict[str, Any]:
    """The fit to some rounds, and errors on the medians of the others.

    `paper_` and `no_latency_` are the errors of simpler forms, fitted to the same rounds. `repeated_` are
    those of the fitted rounds' own medians: the noise.
    """
    ours, simpler, paper = fit(fitted), fit_without_latency(fitted), fit_paper(fitted)
    timed = [cell for cell in held_out if cell.what != DELETE]
    ours_played = {cell: ours.play(cell) for cell in timed}
    paper_played = {cell: paper.play(cell) for cell in timed}
    figures = (
        _errors("", ours_played, held_out)
        | _errors("paper_", paper_played, held_out)
        | _errors("no_latency_", {cell: simpler.play(cell) for cell in timed}, held_out)
        | _errors("repeated_", {cell: fitted[cell] for cell in timed}, held_out)
        | {"first_pod_error_mean": _first_pod_error(ours_played, held_out)}
        | {"tau_create_s": ours.tau_create_s, "tau_resize_s": ours.tau_resize_s}
        | asdict(ours.physics)
        | {"paper_tau_create_s": paper.tau_create_s, "paper_tau_resize_s": paper.tau_resize_s}
    )
    cells = {}
    for cell, rounds in sorted(held_out.items(), key=lambda item: item[0].what):
        cells[cell.name] = _measured(rounds) | {"fitted_rounds_s": median_s(fitted[cell])}
        if cell in ours_played:
            cells[cell.name] |= {
                "emulated_s": median_s(ours_played[cell]),
                "error": _off(ours_played[cell], rounds),
                "emulated_first_over_last": first_over_last(ours_played[cell]),
                "paper_s": median_s(paper_played[cell]),
                "paper_error": _off(paper_played[cell], rounds),
            }
    return _rounded(figures) | {"cells": {name: _rounded(cell) for name, cell in cells.items()}}


def scale_out_figures(emulation: Emulation, emulated: Rounds, seen: Rounds) -> dict[str, float]:
    """The same scale-out predicted, emulated live, and seen on the real node: until all pods were Ready, and
    until half of them were."""
    predicted = [predict(emulation.scenario(seed)) for seed in range(len(seen))]
    figures: dict[str, float] = {}
    for name, rounds in (("predicted", predicted), ("emulated", emulated), ("seen", seen)):
        figures[f"{name}_s"] = median_s(rounds)
        figures[f"{name}_half_s"] = statistics.median(statistics.median(times) for times in rounds)
    for name in ("predicted", "emulated"):
        figures[f"{name}_error"] = abs(figures[f"{name}_s"] / figures["seen_s"] - 1)
        figures[f"{name}_half_error"] = abs(figures[f"{name}_half_s"] / figures["seen_half_s"] - 1)
    low, high = np.quantile([times[-1] for times in seen], (0.25, 0.75))
    return _rounded(figures | {"seen_lower_quartile_s": float(low), "seen_upper_quartile_s": float(high)})


def probe_figures(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The probe's estimates after the cells of each kind, against one pod alone in the same rounds.

    The truth is when a watch showed the container running; `started` is when containerd started it.
    """

    def times_of(cell: Cell, clock: str) -> list[float]:
        return [times[clock][-1] for cells in rounds for times in cells[cell.name]]

    def read(cell: Cell, what: str) -> float:
        found = [times[PROBE][what] for cells in rounds for times in cells[cell.name]]
        return float(statistics.median(seconds for seconds in found if seconds is not None))

    alone_s = statistics.median(times_of(Cell(CREATE, 1), "seen_s"))
    started_s = statistics.median(times_of(Cell(CREATE, 1), "started_s"))
    resize_s = statistics.median(times_of(Cell(RESIZE, 1), "seen_s"))
    create = {cell: read(cell, "create_s") for cell in CREATIONS}
    resize = {cell: read(cell, "resize_s") for cell in RESIZES}
    single = [seconds for cell, seconds in create.items() if cell.containers == 1]
    several = [seconds for cell, seconds in create.items() if cell.containers > 1]
    return _rounded(
        {
            "true_create_s": alone_s,
            "true_create_started_s": started_s,
            "true_resize_s": resize_s,
            "create_single_error_mean": _mean_off(single, alone_s),
            "create_several_error_mean": _mean_off(several, alone_s),
            "create_single_started_error_mean": _mean_off(single, started_s),
            "create_several_started_error_mean": _mean_off(several, started_s),
            "resize_error_mean": _mean_off(list(resize.values()), resize_s),
        }
    ) | {"cells": _rounded({cell.name: seconds for cell, seconds in (create | resize).items()})}


def _mean_off(estimates_s: Sequence[float], truth_s: float) -> float:
    return statistics.mean(abs(seconds / truth_s - 1) for seconds in estimates_s)


def _errors(prefix: str, claimed: Samples, held_out: Samples) -> dict[str, float]:
    off = {cell: _off(rounds, held_out[cell]) for cell, rounds in claimed.items()}
    creations = [error for cell, error in off.items() if cell.what == CREATE]
    several = [error for cell, error in off.items() if cell.what == CREATE and cell.containers > 1]
    resizes = [error for cell, error in off.items() if cell.what == RESIZE]
    return {
        f"{prefix}create_error_mean": statistics.mean(creations),
        f"{prefix}create_error_worst": max(creations),
        f"{prefix}containers_error_mean": statistics.mean(several),
        f"{prefix}resize_error_mean": statistics.mean(resizes),
        f"{prefix}resize_error_worst": max(resizes),
    }


def _off(claimed: Rounds, measured: Rounds) -> float:
    return abs(median_s(claimed) / median_s(measured) - 1)


def _first_pod_error(claimed: Samples, held_out: Samples) -> float:
    """Of the pod that is done first, where there are several."""
    return statistics.mean(
        abs(_first_s(rounds) / _first_s(held_out[cell]) - 1)
        for cell, rounds in claimed.items()
        if cell.pods > 1
    )


def _first_s(rounds: Rounds) -> float:
    return statistics.median(times[0] for times in rounds)


def _measured(rounds: Rounds) -> dict[str, float]:
    low, median, high = np.quantile([times[-1] for times in rounds], (0.25, 0.5, 0.75))
    return {
        "measured_s": float(median),
        "lower_quartile_s": float(low),
        "upper_quartile_s": float(high),
        "first_over_last": first_over_last(rounds),
        "repetitions": len(rounds),
    }


def _rounded(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in figures.items()}
