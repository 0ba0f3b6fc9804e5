"""Plots as specifications: labels can be read, domains hold what is drawn, names stay data."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from experiments.results.plot import Curve, Dot, Dots, Lines, Point
from experiments.results.report import vega
from experiments.results.report.vega import specification
from experiments.results.sections import section
from tests.experiments.results.kept import kept_figures

VALUES = st.floats(0.001, 1e4)


def test_every_plot_of_the_kept_results_can_be_written() -> None:
    plots = [plot for figures in kept_figures().values() for plot in section(figures).plots]
    assert len(plots) > 40
    for plot in plots:
        assert json.dumps(specification(plot), allow_nan=False)


@given(st.lists(VALUES, min_size=1, max_size=8), st.booleans())
def test_labels_at_the_ends_of_curves_do_not_cover_each_other(ends: list[float], logarithmic: bool) -> None:
    curves = [Curve(str(i), [Point(1, 1), Point(2, end)]) for i, end in enumerate(ends)]
    spec = specification(Lines("t", "x", "y", curves, logarithmic_y=logarithmic))
    texts = [
        layer for layer in spec["layer"] if layer["mark"]["type"] == "text" and "stroke" not in layer["mark"]
    ]
    low, high = texts[0]["encoding"]["y"]["scale"]["domain"]
    at = sorted(
        vega._share(layer["data"]["values"][0]["y"], low, high, logarithmic) * vega._HEIGHT for layer in texts
    )
    assert len(at) == len(ends)
    assert all(after - before > vega._LABEL_APART - 0.5 for before, after in itertools.pairwise(at))


@given(VALUES, VALUES, VALUES)
def test_the_axis_holds_values_intervals_and_the_reference(value: float, low: float, high: float) -> None:
    dots = [Dot("a", value, min(low, high), max(low, high))]
    (first, *_) = specification(Dots("t", "x", dots, logarithmic=True))["layer"]
    start, end = first["encoding"]["x"]["scale"]["domain"]
    assert start < min(value, low, high, 1)
    assert end > max(value, low, high, 1)
    assert all(start <= tick <= end for tick in first["encoding"]["x"]["axis"]["values"])


def test_a_name_is_a_value_of_the_data_only() -> None:
    name = "datum.x]); alert(1)"
    spec = specification(Dots("t", "x", [Dot(name, 2.0)]))
    assert name in json.dumps(spec["data"])
    assert name not in json.dumps(spec["layer"])


def test_a_line_ends_where_there_is_no_value() -> None:
    gap = Curve("a", [Point(1, 1), Point(2, None), Point(3, 2), Point(4, None)])
    spec = specification(Lines("t", "x", "y", [gap]))
    line = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "line")
    assert [value["y"] for value in line["data"]["values"]] == [1, None, 2, None]
    assert spec["layer"][-1]["data"]["values"][0]["x"] == 3, "the label stands at the last value"
