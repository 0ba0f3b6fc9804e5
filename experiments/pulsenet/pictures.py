"""Pictures of the comparison; colours are systems. Numbers of figures are the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.pulsenet.figures import CDF

__all__ = ["draw_all"]

_COLOURS = {
    "pulsenet": "#1f6fb4", "paper": "#5fa2d9", "asynchronous": "#4d4d4d", "synchronous": "#d1495b",
    "linear_regression": "#e08e2b", "nhits": "#8ab17d", "warm_pool": "#8d5a97", "dirigent": "#2a9d8f",
}  # fmt: skip
_SLOWDOWN = "slowdown (geometric mean of p99)"
_COST = "cost (memory of all / of busy instances)"


def draw_all(found: Mapping[str, Any], directory: Path) -> list[Path]:
    directory.mkdir(parents=True, exist_ok=True)
    drawn = [_front(found, directory / "front.png"), _delays(found, directory / "delays.png"),
             _bars(found, directory / "resources.png")]  # fmt: skip
    if found["keepalive"] and found["threshold"]:
        drawn.append(_sensitivity(found, directory / "sensitivity.png"))
    if found["creation_delay"]:
        drawn.append(_axes(found, directory / "creation-delay.png"))
    return drawn


def _figure(columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # noqa: PLC0415  # a second of import, that --help should not wait for

    figure = Figure(figsize=size)  # without pyplot: a file needs no screen
    grid = figure.subplots(1, columns, squeeze=False)[0]
    for axes in grid:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, grid


def _save(figure: Any, title: str, file: Path) -> Path:
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(file, dpi=100)
    return file


def _front(found: Mapping[str, Any], file: Path) -> Path:
    """Each system over its retention, and its default (fig. 11)."""
    figure, (axes,) = _figure(1, (8, 5))
    for name, at in found["systems"].items():
        points = [of for key, of in found["retention"].items() if key.rpartition(" ")[0] == name]
        points.sort(key=lambda of: float(of["cost"]))
        axes.plot([p["cost"] for p in points], [p["slowdown"] for p in points], "o-", ms=3, lw=1,
                  color=_COLOURS.get(name), alpha=0.6)  # fmt: skip
        axes.plot(at["cost"], at["slowdown"], "D", ms=8, color=_COLOURS.get(name), label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(_COST)
    axes.set_ylabel(_SLOWDOWN)
    axes.legend(frameon=False, fontsize=8)
    title = "Retention from 6 s to 10 min; diamonds are defaults. Left and low is better (fig. 11)"
    return _save(figure, title, file)


def _delays(found: Mapping[str, Any], file: Path) -> Path:
    """Mean delay until function code runs, by function (fig. 7)."""
    figure, (axes,) = _figure(1, (7, 4))
    for name, of in found["systems"].items():
        axes.plot(
            of["mean_delay_by_function_ms"], [p / 100 for p in CDF], color=_COLOURS.get(name), label=name
        )
    axes.set_xscale("log")
    axes.set_xlabel("mean scheduling delay of a function, ms")
    axes.set_ylabel("share of functions")
    axes.legend(frameon=False, fontsize=8)
    return _save(figure, "Scheduling delay (fig. 7)", file)


def _bars(found: Mapping[str, Any], file: Path) -> Path:
    """Creations, memory and CPU that is not function code (fig. 9, 10)."""
    figure, grid = _figure(3, (12, 4))
    names = list(found["systems"])
    for axes, key, label in zip(
        grid,
        ("creations", "cost", "overhead_cpu_share"),
        ("regular instances created", _COST, "CPU of starts and predictions, share"),
        strict=True,
    ):
        values = [found["systems"][name][key] for name in names]
        axes.bar(range(len(names)), values, color=[_COLOURS.get(name) for name in names])
        axes.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize=8)
        axes.set_title(label, fontsize=9)
    return _save(figure, "Creations, memory and CPU (fig. 9, 10)", file)


def _sensitivity(found: Mapping[str, Any], file: Path) -> Path:
    """PulseNet over its two parameters (fig. 5)."""
    figure, grid = _figure(2, (11, 4))
    for axes, key, label in zip(
        grid, ("keepalive", "threshold"), ("keepalive, s", "filtering threshold, percentile"), strict=True
    ):
        at = [float(value) for value in found[key]]
        axes.plot(at, [of["slowdown"] for of in found[key].values()], "o-", color=_COLOURS["pulsenet"])
        axes.set_ylabel(_SLOWDOWN, color=_COLOURS["pulsenet"])
        beside = axes.twinx()
        beside.plot(at, [of["cost"] for of in found[key].values()], "s--", color="#d1495b")
        beside.set_ylabel(_COST, color="#d1495b")
        axes.set_xlabel(label)
        if key == "keepalive":
            axes.set_xscale("log")
    return _save(figure, "PulseNet over keepalive and threshold (fig. 5)", file)


def _axes(found: Mapping[str, Any], file: Path) -> Path:
    """Over what creations (fig. 8) and emergency starts take."""
    figure, grid = _figure(2, (11, 4))
    for name in dict.fromkeys(key.rpartition(" ")[0] for key in found["creation_delay"]):
        points = [(float(k.rpartition(" ")[2]), of["slowdown"]) for k, of in found["creation_delay"].items()
                  if k.rpartition(" ")[0] == name]  # fmt: skip
        grid[0].plot(*zip(*points, strict=True), "o-", color=_COLOURS.get(name), label=name)
    grid[0].legend(frameon=False, fontsize=8)
    grid[0].set_xlabel("seconds that a creation takes (fig. 8)")
    at = [float(value) for value in found["start"]]
    grid[1].plot(at, [of["slowdown"] for of in found["start"].values()], "o-", color=_COLOURS["pulsenet"])
    grid[1].set_xlabel("seconds that an emergency start takes")
    for axes in grid:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylabel(_SLOWDOWN)
    return _save(figure, "Slowdown over creation and start delays", file)
