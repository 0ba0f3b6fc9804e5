"""Pictures of the comparison, one for each figure of the paper; colours are arms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.combofunc.arms import AUTOPILOT, NO_INPLACE, OURS, RANDOM_FIT, STOCK, TRIMARAN
from experiments.combofunc.workload import FUNCTIONS

__all__ = ["draw_all"]

_COLOURS = {
    OURS: "#1f6fb4",
    NO_INPLACE: "#8fbce6",
    STOCK: "#9a9a9a",
    RANDOM_FIT: "#d1495b",
    TRIMARAN: "#5b8c5a",
    AUTOPILOT: "#e08e2b",
}
_TIME, _COST = "mean scaling time, s", "resource cost of a concurrency"
Averages = Mapping[str, Mapping[str, float]]  # function -> figure


def draw_all(found: Mapping[str, Any], directory: Path) -> list[Path]:
    """Draw all pictures of a run. A live run has its varied parameters under `in_virtual_time`."""
    directory.mkdir(parents=True, exist_ok=True)
    varied = found.get("in_virtual_time", found)
    drawn = [
        _bars(found["arms"], "scaling_s", _TIME, "Scaling time (fig. 12)", directory / "scaling-time.png"),
        _bars(found["arms"], "cost", _COST, "Resource cost (fig. 13)", directory / "cost.png"),
        _utilisation(found["utilisation"], directory / "utilisation.png"),
        _lines({w: {OURS: a} for w, a in varied["price_weight"].items()}, "lambda (fig. 17, 18)",
               directory / "price-weight.png", logarithmic=False),
        _lines(varied["keep_warm_s"], "seconds that what is not needed is kept", directory / "keep-warm.png",
               logarithmic=False),
        _fronts(varied["keep_warm_s"], directory / "front.png"),
        _lines(varied["nodes"], "nodes (fig. 19, 20)", directory / "nodes.png", logarithmic=True),
        _lines(varied["tau_create_s"], "seconds to create one container (fig. 21, 22)",
               directory / "creation-time.png", logarithmic=True),
        _decisions(varied["decision_ms"], directory / "decision-time.png"),
    ]  # fmt: skip
    if "rounds" in found:
        drawn.append(_over_time(found["rounds"], directory / "over-time.png"))
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


def _bars(arms: Mapping[str, Averages], of: str, label: str, title: str, file: Path) -> Path:
    figure, grid = _figure(1, 1, (8, 3.8))
    axes = grid[0, 0]
    width = 0.8 / len(arms)
    for i, arm in enumerate(a for a in _COLOURS if a in arms):
        places = [f + (i - (len(arms) - 1) / 2) * width for f in range(len(FUNCTIONS))]
        axes.bar(places, [arms[arm][f][of] for f in FUNCTIONS], width, color=_COLOURS[arm], label=arm)
    axes.set_xticks(range(len(FUNCTIONS)), list(FUNCTIONS))
    axes.set_ylabel(label)
    axes.margins(y=0.15)  # room for the legend
    axes.legend(frameon=False, fontsize=8, ncols=len(arms), loc="upper left")
    return _save(figure, title, file)


def _utilisation(by_arm: Mapping[str, Mapping[str, list[float]]], file: Path) -> Path:
    figure, grid = _figure(1, 2, (9, 3.6))
    for axes, kind in zip(grid.flat, ("cpu", "memory"), strict=True):
        for arm, shares in by_arm.items():
            values = shares[kind]
            marks = [i / (len(values) - 1) for i in range(len(values))]
            axes.plot(values, marks, color=_COLOURS[arm], label=arm, lw=2.2 if arm == OURS else 1.3)
        axes.set_xlabel(f"share of a node's {kind} requested")
        axes.set_ylabel("share of nodes and moments")
    grid[0, 0].legend(frameon=False, fontsize=8)
    return _save(figure, "Utilisation of nodes (fig. 15, 16)", file)


def _lines(varied: Mapping[str, Mapping[str, Averages]], label: str, file: Path, logarithmic: bool) -> Path:
    """Means over functions, against the varied parameter."""
    figure, grid = _figure(1, 2, (9, 3.6))
    values = sorted(varied, key=float)
    for axes, (of, name) in zip(grid.flat, (("scaling_s", _TIME), ("cost", _COST)), strict=True):
        for arm in (a for a in _COLOURS if a in varied[values[0]]):
            means = [sum(f[of] for f in varied[v][arm].values()) / len(FUNCTIONS) for v in values]
            axes.plot([float(v) for v in values], means, "o-", color=_COLOURS[arm], label=arm, ms=4)
        axes.set_xlabel(label)
        axes.set_ylabel(name)
        if logarithmic:
            axes.set_xscale("log")
            axes.set_xticks([float(v) for v in values], values)
            axes.minorticks_off()
    grid[0, 0].legend(frameon=False, fontsize=8)
    return _save(figure, "Means over functions, in virtual time", file)


def _fronts(varied: Mapping[str, Mapping[str, Averages]], file: Path) -> Path:
    """Time over cost: each point is another keep time. Lower and further left is better in both."""
    figure, grid = _figure(1, 2, (9, 3.6))
    kept_s = sorted(varied, key=float)
    for axes, (of, name) in zip(grid.flat, (("unit_cost", "cost, eq. (10)"), ("cost", _COST)), strict=True):
        for arm in (a for a in _COLOURS if a in varied[kept_s[0]]):
            times, costs = (
                [sum(f[key] for f in varied[s][arm].values()) / len(FUNCTIONS) for s in kept_s]
                for key in ("scaling_s", of)
            )
            axes.plot(times, costs, "o-", color=_COLOURS[arm], label=arm, ms=4)
        axes.set_xlabel(_TIME)
        axes.set_ylabel(name)
    grid[0, 0].legend(frameon=False, fontsize=8)
    return _save(figure, "Time and cost, by how long arms keep what they do not need", file)


def _decisions(by_nodes: Mapping[str, Mapping[str, float]], file: Path) -> Path:
    figure, grid = _figure(1, 1, (5, 3.6))
    values = sorted((v for v in by_nodes if by_nodes[v]), key=float)
    for key in ("mean", "p99"):
        grid[0, 0].plot([float(v) for v in values], [by_nodes[v][key] for v in values], "o-", label=key)
    grid[0, 0].set_xlabel("nodes")
    grid[0, 0].set_ylabel("ms a decision")
    grid[0, 0].legend(frameon=False)
    return _save(figure, "Deciding (fig. 24)", file)


def _over_time(rounds: Mapping[str, list[Mapping[str, Any]]], file: Path) -> Path:
    """Fig. 14, for the first round: target and ready concurrency."""
    figure, grid = _figure(len(FUNCTIONS), 1, (10, 2.2 * len(FUNCTIONS)))
    for axes, name in zip(grid.flat, FUNCTIONS, strict=True):
        for arm, outcomes in rounds.items():
            track = outcomes[0]["tracks"][name]
            axes.step(track["at_s"], track["ready"], color=_COLOURS[arm], label=arm, lw=1.2)
        axes.step(track["at_s"], track["target"], color="black", lw=1, ls=":", label="target")
        axes.set_ylabel(name)
    grid[-1, 0].set_xlabel("seconds")
    grid[0, 0].legend(frameon=False, fontsize=8, ncols=6)
    return _save(figure, "Concurrency that is ready (fig. 14)", file)
