"""The Grafana dashboard's panels, drawn from Prometheus's answers. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from experiments.results.plot import Curve, Lines, Plot, Point
from experiments.results.section import Figures, Section

__all__ = ["dashboard"]

# Grafana's names of units.
_UNITS = {
    "s": "seconds",
    "ops": "a second",
    "reqps": "a second",
    "short": "",
    "bytes": "bytes",
    "percentunit": "share",
}
_MOST_LINES = 6


def dashboard(figures: Figures) -> Section:
    panels, silent = figures["answered"], figures["silent"]
    rows = [(panel["title"], str(len(panel["lines"]))) for panel in panels]
    rows += [(title, "no answer here") for title in silent]
    notes = [
        "The queries of manifests/overlays/monitoring/surgekit.json, asked of a real Prometheus over "
        f"{figures['seconds']} s, and drawn by `surgekit report`, not by Grafana. Real parts in a lab: "
        f"{', '.join(figures['parts'])}. Panels of parts that did not run, or had nothing to do, have no "
        f"answer. Of more than {_MOST_LINES} lines the first are drawn."
    ]
    return Section(
        "Lab: the dashboard", ("panel", "lines"), rows, notes, plots=[_plot(panel) for panel in panels]
    )


def _plot(panel: Figures) -> Plot:
    curves = [
        Curve(line["name"], [Point(*at) for at in _with_gaps(line["at_s"], line["values"])])
        for line in panel["lines"][:_MOST_LINES]
    ]
    return Lines(panel["title"], "seconds", _UNITS.get(panel["unit"], str(panel["unit"])), curves)


def _with_gaps(at_s: Sequence[float], values: Sequence[float]) -> Iterator[tuple[float, float | None]]:
    """Where Prometheus had no answer for a while, the line ends."""
    step_s = min((b - a for a, b in itertools.pairwise(at_s)), default=0.0)
    before_s = None
    for now_s, value in zip(at_s, values, strict=True):
        if before_s is not None and now_s - before_s > 1.5 * step_s:
            yield before_s + step_s, None
        yield now_s, value
        before_s = now_s
