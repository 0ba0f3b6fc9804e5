"""Plots as Vega-Lite specifications. Pure.

Colours are the page's CSS variables, so that a theme or a printer changes them without drawing anew. Names
out of files are values of the data only, never part of an expression.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from math import floor, log10
from typing import Any

from experiments.results.plot import Curve, Dot, Dots, Lines, Plot, Point

__all__ = ["specification"]

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # an identifier; nothing asks for it
_OURS, _PAPER, _MUTED, _INK = "var(--ours)", "var(--paper)", "var(--muted)", "var(--ink)"
_OTHERS = tuple(f"var(--other-{i})" for i in range(1, 8))
_HEIGHT, _LANE = 230, 17  # pixels: of a plot with curves, and of a line of dots
_LANES = ("measured", "alone", "paper")  # from above, within a line
_LABEL_APART = 14  # pixels between labels at the ends of curves
_WRAP = 30
_MOST_TICKS = 7
_MOST_MARKS = 12  # more points of a curve are a line
_MOST_MOVED = 45  # pixels that a label may stand beside its point
_STEPS = (
    tuple(step / 20 for step in range(20, 200)),
    tuple(step / 10 for step in range(10, 100)),
    (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9),
    (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8),
    (1, 1.5, 2, 3, 4, 6, 8),
    (1, 2, 5),
    (1, 3),
    (1,),
)

Spec = dict[str, Any]


def specification(plot: Plot) -> Spec:
    body = _dots(plot) if isinstance(plot, Dots) else _lines(plot)
    return {"$schema": _SCHEMA, "width": "container", "background": None} | body


def _dots(plot: Dots) -> Spec:
    labels = list(dict.fromkeys(dot.label for dot in plot.dots))
    paper = any(dot.paper for dot in plot.dots)
    both = {dot.label for dot in plot.dots if dot.paper} & {dot.label for dot in plot.dots if not dot.paper}
    rows = [_row(dot, _LANES[2 * dot.paper if dot.label in both else 1]) for dot in plot.dots]
    ends = [end for dot in plot.dots for end in (dot.low, dot.value, dot.high) if end is not None]
    x: Spec = {"title": plot.axis, "type": "quantitative", "field": "value"}
    ends += plot.also_holds if plot.reference is None else [plot.reference, *plot.also_holds]
    x |= _scale(ends, plot.logarithmic, plot.zero)
    offset = {"field": "lane", "type": "nominal", "scale": {"domain": list(_LANES)}}
    lane: Spec = {"yOffset": offset} if paper else {}
    colour = {"field": "colour", "type": "nominal", "scale": None}
    y: Spec = {
        "field": "label",
        "type": "nominal",
        "sort": None,
        "title": None,
        "axis": {"labelExpr": "split(datum.value, '\\n')", "labelLimit": 0, "labelLineHeight": 12},
        "scale": {"paddingInner": 0.3, "paddingOuter": 0.15},
    }
    interval = {"y": y, "x": x | {"field": "low"}, "x2": {"field": "high"}, "color": colour, **lane}
    layers: list[Spec] = [
        {"mark": {"type": "rule", "strokeWidth": 2.2, "strokeCap": "round"}, "encoding": interval},
        {
            "mark": {"type": "point", "filled": True, "opacity": 1, "size": 66},
            "encoding": {
                "y": y,
                "x": x,
                "color": colour,
                "shape": {"field": "shape", "type": "nominal", "scale": None},
                "tooltip": {"field": "said"},
                **lane,
            },
            "transform": [{"filter": "isValid(datum.value)"}],
        },
    ]
    number = {"y": y, "x": x | {"field": "end"}, "text": {"field": "text"}, **lane}
    layers += _text(number | {"color": colour})
    if plot.reference is not None:
        layers.insert(0, _reference("x", plot.reference, x))
    written = max(_wrapped(label).count("\n") + 1 for label in labels)
    deep = len(labels) * max(_LANE * (2 if paper else 1) + 9, 26, 12 * written + 8)
    return {
        "height": deep,
        "data": {"values": rows},
        "layer": layers,
        "padding": {"left": 4, "top": 6, "bottom": 4, "right": 16},
    }


def _row(dot: Dot, lane: str) -> Spec:
    low, high = (dot.value if end is None else end for end in (dot.low, dot.high))
    text = _short(dot.value) if dot.value is not None else f"{_short(low)} to {_short(high)}"
    interval = f" ({_short(low)} to {_short(high)})" if dot.low is not None and dot.value is not None else ""
    return {
        "label": _wrapped(dot.label),
        "value": dot.value,
        "low": low,
        "high": high,
        "end": high,
        "text": text,
        "lane": lane,
        "shape": "diamond" if dot.paper else "circle",
        "colour": _PAPER if dot.paper else _OURS if dot.ours else _MUTED,
        "said": f"{_plain(dot.label)}{', the paper' if dot.paper else ''}: {text}{interval}",
    }


def _lines(plot: Lines) -> Spec:
    points = [point for curve in plot.curves for point in curve.points]
    ys = [y for p in points for y in (p.y, p.low, p.high) if y is not None]
    y_scale = _scale(ys, plot.logarithmic_y, False)
    low, high = y_scale["scale"]["domain"]
    places, moved = _places(plot.curves, low, high, plot.logarithmic_y)
    others = iter(_OTHERS * 3)
    colours = [_OURS if c.ours else _PAPER if c.paper else next(others) for c in plot.curves]
    x: Spec = {"field": "x", "type": "quantitative", "title": plot.x}
    x |= _scale([p.x for p in points], plot.logarithmic_x, False, ticks=_shared_x(plot.curves))
    y: Spec = {"field": "y", "type": "quantitative", "title": plot.y} | y_scale
    layers = [layer for region in plot.regions for layer in _region(region.label, region.low, region.high)]
    if plot.reference is not None:
        layers.append(_reference("y", plot.reference, y))
    # Ours is drawn last, over the others.
    drawn = sorted(zip(plot.curves, colours, places, strict=True), key=lambda found: found[0].ours)
    for curve, colour, place in drawn:
        layers += _curve(curve, colour, x, y)
        last = {"x": _last(curve).x, "y": place, "label": _plain(curve.label)}
        # Far from their points, labels are a list at the right edge.
        at = {"x": {"value": "width"} if moved > _MOST_MOVED else x, "y": y, "text": {"field": "label"}}
        for layer in _text(at | {"color": {"value": colour}}, "bold" if curve.ours else "normal"):
            layers.append({"data": {"values": [last]}} | layer)
    return {"height": _HEIGHT, "layer": layers, "padding": {"left": 4, "top": 6, "bottom": 4, "right": 16}}


def _curve(curve: Curve, colour: str, x: Spec, y: Spec) -> Iterator[Spec]:
    label = _plain(curve.label)
    data = {
        "values": [
            {
                "x": p.x,
                "y": p.y,
                "low": p.low,
                "high": p.high,
                "said": f"{label}: {_short(p.y)} at {_short(p.x)}",
            }
            for p in curve.points
        ]
    }
    if any(p.low is not None for p in curve.points):
        yield {
            "data": data,
            "mark": {"type": "area", "opacity": 0.14 if curve.ours else 0.07, "color": colour},
            "encoding": {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}},
        }
    line = {"type": "line", "color": colour, "strokeWidth": 2.6 if curve.ours else 1.4, "order": None}
    if len(curve.points) > 1:
        interpolate = {"interpolate": "step-after"} if curve.steps else {}
        yield {
            "data": data,
            "mark": line | interpolate,
            "encoding": {"x": x, "y": y, "order": {"value": None}},
        }
    if len(curve.points) <= _MOST_MARKS:
        size = (52 if curve.ours else 30) if len(curve.points) > 1 else (90 if curve.ours else 55)
        yield {
            "data": data,
            "mark": {"type": "point", "filled": True, "opacity": 1, "size": size, "color": colour},
            "encoding": {"x": x, "y": y, "tooltip": {"field": "said"}},
        }


def _text(encoding: Spec, weight: str = "normal") -> Iterator[Spec]:
    """A text beside a point, twice: the lower one is a margin in the colour of the page."""
    mark = {"type": "text", "align": "left", "dx": 8, "fontSize": 11, "fontWeight": weight}
    margin = {"stroke": "var(--card)", "strokeWidth": 4, "strokeJoin": "round"}
    yield {"mark": mark | margin, "encoding": {key: of for key, of in encoding.items() if key != "color"}}
    yield {"mark": mark, "encoding": encoding}


def _last(curve: Curve) -> Point:
    return next((point for point in reversed(curve.points) if point.y is not None), Point(0, 0))


def _shared_x(curves: Sequence[Curve]) -> Sequence[float]:
    """The values of a parameter that was varied; none if each curve has its own."""
    found = {tuple(sorted(p.x for p in curve.points)) for curve in curves}
    return next(iter(found)) if len(found) == 1 and len(curves[0].points) > 1 else ()


def _places(curves: Sequence[Curve], low: float, high: float, logarithmic: bool) -> tuple[list[float], float]:
    """Where labels stand on the y axis: beside the last points, but not on each other. And how many pixels
    the farthest is from its point."""

    def pixels(index: int) -> float:
        return _share(_last(curves[index]).y or 0.0, low, high, logarithmic) * _HEIGHT

    ends = sorted(range(len(curves)), key=pixels)
    at = [pixels(i) for i in ends]
    for i in range(1, len(at)):
        at[i] = max(at[i], at[i - 1] + _LABEL_APART)
    over = max(0.0, at[-1] - _HEIGHT) if at else 0.0
    if over:
        at[-1] -= over
        for i in range(len(at) - 2, -1, -1):
            at[i] = min(at[i], at[i + 1] - _LABEL_APART)
    found = dict(zip(ends, at, strict=True))
    moved = max((abs(found[i] - pixels(i)) for i in found), default=0.0)
    return [_value(found[i] / _HEIGHT, low, high, logarithmic) for i in range(len(curves))], moved


def _share(value: float, low: float, high: float, logarithmic: bool) -> float:
    if logarithmic:
        value, low, high = log10(value), log10(low), log10(high)
    return (value - low) / (high - low)


def _value(share: float, low: float, high: float, logarithmic: bool) -> float:
    if logarithmic:
        return float(10 ** (log10(low) + share * (log10(high) - log10(low))))
    return low + share * (high - low)


def _scale(values: Sequence[float], logarithmic: bool, zero: bool, ticks: Sequence[float] = ()) -> Spec:
    """Domain and ticks. A logarithmic one needs values above 0: others make it linear."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if logarithmic and low > 0:
        room = (high / low) ** 0.06 if high > low else 1.3
        low, high = low / room, high * room
        marks = ticks if 0 < len(ticks) <= 8 else _decades(low, high)
        axis = {"values": list(marks), "format": "~g", "grid": True}
        return {"scale": {"type": "log", "domain": [low, high], "nice": False}, "axis": axis}
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    low, high = 0.0 if zero or low == high == 0 else low - room, high + room
    return {
        "scale": {"domain": [low, high], "nice": False, "zero": False},
        "axis": {"tickCount": 6, "grid": True},
    }


def _decades(low: float, high: float) -> list[float]:
    """Round ticks of a logarithmic axis: the finest of these steps that leaves room for labels."""
    powers = range(floor(log10(low)), floor(log10(high)) + 1)
    inside: list[float] = []
    for steps in _STEPS:
        found = [round(step * 10.0**power, 9) for power in powers for step in steps]
        inside = [tick for tick in found if low <= tick <= high]
        if len(inside) <= _MOST_TICKS:
            break
    return inside


def _reference(axis: str, value: float, encoding: Spec) -> Spec:
    return {
        "data": {"values": [{}]},
        "mark": {"type": "rule", "color": _INK, "strokeWidth": 1, "strokeDash": [3, 3], "opacity": 0.55},
        "encoding": {axis: {key: of for key, of in encoding.items() if key != "field"} | {"datum": value}},
    }


def _region(label: str, low: float, high: float) -> Iterator[Spec]:
    data = {"values": [{"low": low, "high": high, "label": label}]}
    x = {"field": "low", "type": "quantitative"}
    yield {
        "data": data,
        "mark": {"type": "rect", "color": _PAPER, "opacity": 0.13},
        "encoding": {"x": x, "x2": {"field": "high"}},
    }
    yield {
        "data": data,
        "mark": {"type": "text", "color": _PAPER, "align": "left", "dx": 4, "dy": 10, "fontSize": 11},
        "encoding": {"x": x, "y": {"value": 0}, "text": {"field": "label"}},
    }


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) >= 10 else f"{value:.2f}"


def _wrapped(label: str) -> str:
    return "\n".join(textwrap.wrap(_plain(label), _WRAP)) or " "


def _plain(label: str) -> str:
    """A plot is no Markdown: without the backslashes."""
    return re.sub(r"\\(.)", r"\1", label)
