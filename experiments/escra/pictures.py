"""Pictures of the comparison; colours are arms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.escra.arms import AUTOPILOT, BASELINES

__all__ = ["draw_all"]

_COLOURS = {
    "ours_1_5": "#1f6fb4", "ours_1": "#5fa2d9", "ours_0_75": "#a9cfee", "static_1_5": "#4d4d4d",
    "static_1": "#9a9a9a", "static_1_cpu": "#7d8ca3", "static_0_75": "#cfcfcf",
    AUTOPILOT: "#e08e2b", "autopilot_burst": "#c9a227", "vpa": "#6a4c93", "ours_no_burst": "#7fb3d5",
    "stock_resize": "#bc6c25", "ours_on_a_kubelet": "#1f6fb4",
    "no_limit": "#2a9d8f",
    "burst": "#8ab17d", "paper": "#d1495b", "published": "#8d5a97",
}  # fmt: skip
_PERCENTILES = np.arange(0, 101, 5)  # of a run's `cdf`


def draw_all(found: Mapping[str, Any], directory: Path) -> list[Path]:
    directory.mkdir(parents=True, exist_ok=True)
    drawn = []
    if found["latency_ratio"]:
        drawn.append(_ratios(found, directory / "ratios.png"))
        drawn.append(_slack(found["played"], directory / "slack.png"))
    if steps := found.get("stepping"):
        drawn.append(_stepping(steps, directory / "stepping.png"))
    if functions := found.get("serverless"):
        drawn.append(_serverless(functions, directory / "serverless.png"))
    if sweep := found.get("sweep"):
        drawn.append(_sweep(sweep, directory / "sweep.png"))
    return drawn


def _figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # noqa: PLC0415  # a second of import, that --help should not wait for

    figure = Figure(figsize=size)  # without pyplot: a file needs no screen
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, grid


def _save(figure: Any, title: str, file: Path) -> Path:
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(file, dpi=100)
    return file


def _ratios(found: Mapping[str, Any], file: Path) -> Path:
    """Each application and load is a point, the mean with its interval a line (fig. 4)."""
    figure, grid = _figure(1, 2, (11, 4))
    for axes, key, label in zip(
        grid.flat,
        ("latency_ratio", "throughput_ratio"),
        ("p99.9 latency, baseline / ours", "throughput, ours / baseline"),
        strict=True,
    ):
        names = [name for name in BASELINES if name in found[key]]
        for at, name in enumerate(names):
            ratio = found[key][name]
            axes.plot([at] * len(ratio["by_load"]), list(ratio["by_load"].values()), "o", ms=4,
                      color=_COLOURS[name], alpha=0.6)  # fmt: skip
            axes.plot([at - 0.25, at + 0.25], [ratio["mean"]] * 2, color="black", lw=2)
            axes.plot([at, at], [ratio["low"], ratio["high"]], color="black", lw=1)
        axes.axhline(1.0, color="black", ls=":", lw=1)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:.2g}")
        axes.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
        axes.set_ylabel(label)
    return _save(figure, "Above 1, ours is better (fig. 4)", file)


def _slack(played: Mapping[str, Any], file: Path) -> Path:
    """Over all runs of an arm, each percentile's mean (fig. 5, 6)."""
    figure, grid = _figure(1, 2, (11, 4))
    arms = list(dict.fromkeys(key.split("/")[3] for key in played if key.endswith("/")))
    for axes, of, label in zip(
        grid.flat,
        ("cpu_slack_cores", "memory_slack_mib"),
        ("CPU slack of a container, cores", "memory slack of a container, MiB"),
        strict=True,
    ):
        for arm in (a for a in _COLOURS if a in arms):
            curves = [run[of]["cdf"] for key, run in played.items() if key.endswith(f"/{arm}/") and run[of]]
            if curves:
                axes.plot(np.mean(curves, axis=0), _PERCENTILES / 100, color=_COLOURS[arm], label=arm,
                          lw=2.2 if arm.startswith("ours") else 1.3)  # fmt: skip
        axes.set_xlabel(label)
        axes.set_ylabel("share of containers and moments")
    grid[0, 0].legend(frameon=False, fontsize=7)
    return _save(figure, "Slack (fig. 5, 6)", file)


def _stepping(steps: Mapping[str, Any], file: Path) -> Path:
    figure, grid = _figure(len(steps), 1, (9, 2.2 * len(steps)))
    for axes, (arm, seen) in zip(grid.flat, steps.items(), strict=True):
        axes.step(seen["at_s"], seen["limit_cores"], color=_COLOURS[arm], lw=1.5, label="limit")
        axes.fill_between(seen["at_s"], seen["used_cores"], color="#bbbbbb", lw=0, label="used")
        axes.set_ylabel("cores")
        axes.set_title(f"{arm}: slack {seen['mean_slack_cores']:.2f} cores, "
                       f"{seen['throttled_share']:.0%} of periods throttled", fontsize=9)  # fmt: skip
    grid[0, 0].legend(frameon=False, fontsize=8)
    grid[-1, 0].set_xlabel("seconds")
    return _save(figure, "A load that steps between 0.1 and 1.5 cores (fig. 2)", file)


def _serverless(functions: Mapping[str, Any], file: Path) -> Path:
    """Latency, and limits of all pods over time; static limits are grey (fig. 7 to 9)."""
    figure, grid = _figure(len(functions), 3, (13, 3.2 * len(functions)))
    colours = {"static": "#4d4d4d", "ours": "#1f6fb4", "ours_80": "#e08e2b", "paper": "#d1495b"}
    for row, (function, arms) in zip(grid, functions.items(), strict=True):
        for arm, seen in arms.items():
            course, cdf = seen["timeline"], seen["latency_s"]["cdf"]
            row[0].plot(cdf, np.linspace(0, 1, len(cdf)), color=colours[arm], label=arm)
            row[1].plot(course["at_s"], course["cpu_limit_vcpu"], color=colours[arm])
            row[2].plot(course["at_s"], course["memory_limit_mib"], color=colours[arm])
        for axes, label in zip(
            row, ("share finished", "limits of all pods, vCPU", "limits of all pods, MiB"), strict=True
        ):
            axes.set_ylabel(label)
            axes.set_xlabel("seconds")
        row[0].set_title(f"{function}: latency", fontsize=9)
        row[0].legend(frameon=False, fontsize=8)
    return _save(figure, "Functions (fig. 7 to 9)", file)


def _sweep(sweep: Mapping[str, Any], file: Path) -> Path:
    """Each parameter is a panel: p99.9 latency by its value, a line for each load (section VI-I)."""
    panels: dict[str, list[tuple[float, Mapping[str, Any]]]] = {}
    for name, by_load in sweep.items():
        parameter, _, value = name.rpartition("=")
        panels.setdefault(parameter, []).append((float(value), by_load))
    columns = 3
    figure, grid = _figure(-(-len(panels) // columns), columns, (13, 3.0 * -(-len(panels) // columns)))
    for axes, (parameter, points) in zip(grid.flat, panels.items(), strict=False):
        for load in points[0][1]:
            latencies = [by_load[load]["p999_ms"] for _, by_load in points]
            axes.plot([value for value, _ in points], latencies, "o-", ms=4, label=load)
        axes.set_title(parameter, fontsize=9)
        axes.set_ylabel("p99.9 latency, ms")
        axes.set_ylim(bottom=0)
    for unused in grid.flat[len(panels) :]:
        unused.set_visible(False)
    grid[0, 0].legend(frameon=False, fontsize=8)
    return _save(figure, "Other parameters, one at a time", file)
