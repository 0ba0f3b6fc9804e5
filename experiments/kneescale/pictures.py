"""Pictures of the comparison, one for each figure of the paper; one panel a function, one line an arm."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from experiments.kneescale.figures import front_points
from experiments.kneescale.plan import CONSTANT, OURS, SAMPLING_S, Plan, Played

__all__ = ["draw_all"]

Tracks = Mapping[str, Mapping[str, Mapping[str, Any]]]  # arm -> function -> track
Panel = Callable[[Any, list[tuple[str, Mapping[str, Any]]]], None]  # axes, (arm, track)

# Ours stands out; baselines of one kind have one colour.
_STYLES: dict[str, dict[str, Any]] = {
    OURS: {"color": "#1f6fb4", "lw": 2.4},
    "paper": {"color": "#d1495b", "lw": 1.4},
    "hill_climbing": {"color": "#8e6c8a", "lw": 1.2},
    "random": {"color": "#8e6c8a", "lw": 1.2, "ls": ":"},
    "hpa30": {"color": "#6b7a3a", "lw": 1.2},
    "hpa40": {"color": "#6b7a3a", "lw": 1.2, "ls": (0, (8, 2))},
    "hpa60": {"color": "#6b7a3a", "lw": 1.2, "ls": "--"},
    "hpa70": {"color": "#6b7a3a", "lw": 1.2, "ls": "-."},
    "hpa90": {"color": "#6b7a3a", "lw": 1.2, "ls": ":"},
    "openfaas": {"color": "#e08e2b", "lw": 1.4},
    CONSTANT: {"color": "#9a9a9a", "lw": 1.4},
}


def draw_all(played: Played, plan: Plan, directory: Path) -> list[Path]:
    """Draw the first round of each load; return the files."""
    files = []
    for part, seed, name in plan.rounds():
        if seed == plan.seeds[0]:
            tracks = {arm: played[name][arm] for arm in part.arms}
            files += [
                _draw(tracks, panel, title, directory / f"{part.load.name}-{what}.png")
                for what, title, panel in _FIGURES
                if what not in _OF_REQUESTS or _has_requests(tracks)
            ]
    for load in dict.fromkeys(part.load.name for part in plan.parts if OURS in part.arms):
        files.append(_draw_front(front_points(played, plan, load), load, directory / f"{load}-front.png"))
    return files


def _draw_front(points: Mapping[str, list[tuple[float, float]]], load: str, file: Path) -> Path:
    """Over all rounds. An arm that depends on the budget is a line, from the least to the most."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # as below

    figure = Figure(figsize=(6.4, 4.4))
    axes = figure.subplots()
    for arm, of_budgets in points.items():
        replicas, latency = zip(*sorted(of_budgets), strict=True)
        axes.plot(replicas, latency, marker="o", label=arm, **_STYLES[arm])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("replica-intervals of a request, as a multiple of ours at the first budget")
    axes.set_ylabel("latency, likewise")
    axes.set_title(f"{load}: left and low is better in both", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=100)
    return file


def _over_time(key: str, label: str, cumulated: bool) -> Panel:
    def panel(axes: Any, arms: list[tuple[str, Mapping[str, Any]]]) -> None:
        for arm, track in arms:
            values = list(itertools.accumulate(track[key])) if cumulated else track[key]
            minutes = [(i + 1) * SAMPLING_S / 60 for i in range(len(values))]
            axes.plot(minutes, values, label=arm, **_STYLES[arm])
        axes.set_xlabel("minutes (nominal)")
        axes.set_ylabel(label)

    return panel


def _latency_boxes(axes: Any, arms: list[tuple[str, Mapping[str, Any]]]) -> None:
    boxes = [
        {"label": arm, "med": q["p50"], "q1": q["p25"], "q3": q["p75"], "whislo": q["p5"], "whishi": q["p95"]}
        for arm, track in arms
        if (q := track["latency_quantiles_s"])
    ]
    axes.bxp(boxes, showfliers=False)
    axes.set_yscale("log")
    axes.tick_params(axis="x", rotation=70)
    axes.set_ylabel("seconds (5, 25, 50, 75, 95 %)")


def _first_invocations(axes: Any, arms: list[tuple[str, Mapping[str, Any]]]) -> None:
    for arm, track in arms:
        axes.plot(range(1, len(track["first_latencies_s"]) + 1), track["first_latencies_s"], **_STYLES[arm])
    axes.set_xlabel("invocation")
    axes.set_ylabel("seconds")


_OF_REQUESTS = frozenset({"latency", "first-invocations"})
_FIGURES: tuple[tuple[str, str, Panel], ...] = (
    ("performance", "Cumulative performance (fig. 9, 15)", _over_time("score", "sum of scores", True)),
    ("replicas", "Replicas (fig. 6, 11)", _over_time("replicas", "replicas", False)),
    ("spent", "Cumulative replicas (fig. 12)", _over_time("replicas", "replica-intervals", True)),
    ("throughput", "Throughput (fig. 7, 13)", _over_time("throughput_per_s", "answered a second", False)),
    ("latency", "Latency of what was answered (fig. 8, 14)", _latency_boxes),
    ("first-invocations", "The first invocations (fig. 16)", _first_invocations),
)


def _has_requests(tracks: Tracks) -> bool:
    """A simulated run keeps no single requests."""
    return any(t["latency_quantiles_s"] for functions in tracks.values() for t in functions.values())


def _draw(tracks: Tracks, panel: Panel, title: str, file: Path) -> Path:
    from matplotlib.figure import Figure  # noqa: PLC0415  # a second of import, that --help should not wait for

    functions = list(dict.fromkeys(f for by_function in tracks.values() for f in by_function))
    columns = min(len(functions), 5)
    rows = -(-len(functions) // columns)
    figure = Figure(figsize=(3.4 * columns, 3.2 * rows + 0.6))
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, function in itertools.zip_longest(grid.flat, functions):
        if function is None:
            axes.set_visible(False)
            continue
        panel(axes, [(arm, by_function[function]) for arm, by_function in tracks.items()])
        axes.set_title(function, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False, fontsize=9)
    figure.suptitle(title)
    figure.tight_layout(rect=(0, 0.06 if handles else 0, 1, 1))
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=100)
    return file
