"""ComboFunc's sections: sizes and places, and the planner alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from experiments.intervals import in_words
from experiments.results.papers import printed
from experiments.results.plot import Curve, Dot, Dots, Lines, Plot, Point
from experiments.results.section import Figures, Section, Summary, ratio

__all__ = ["combofunc", "planner"]

_ARMS = {
    "stock": "a Deployment of one size, stock scheduler",
    "random_fit": "Random Fit",
    "trimaran": "one size, placed by Trimaran",
    "autopilot": "Autopilot: one size, resized in place",
    "no_inplace": "ours without resizing in place",
}
_SHORT = {
    "ours": "ours",
    "stock": "stock",
    "random_fit": "Random Fit",
    "trimaran": "Trimaran",
    "autopilot": "Autopilot",
    "no_inplace": "ours, not in place",
}
_FUNCTIONS = {
    "file": "file processing",
    "video": "video processing",
    "web": "web service",
    "ml": "machine learning",
}
_KEYS = ("time_ratio", "unit_cost_ratio", "cost_ratio")
_MEAN = ", mean of its functions"
_TIME, _COST = "mean scaling time, s", "resource cost of a unit of concurrency"


def combofunc(figures: Figures) -> Section:
    columns = (
        "baseline / ours: above 1, ours is better",
        "scaling time",
        "cost, eq. (10)",
        "cost of what was asked for",
    )
    rows = [(_ARMS.get(arm, arm), *(ratio(figures[key][arm]) for key in _KEYS)) for arm in figures[_KEYS[0]]]
    how, seeds = "in virtual time" if figures.get("simulated") else "live", figures["seeds"]
    notes = [
        f"Four functions on 16 nodes, targets from Azure's trace, {len(seeds)} seeds "
        f"({min(seeds)} to {max(seeds)}), {how}. "
        "Every baseline has the sizes and the keep time that are best for it. Eq. (10) divides by the "
        "concurrency that is there; what was asked for is the same for all arms "
        "([why both](decisions/comparisons.md))."
    ]
    if hidden := figures.get("load_hides_speed"):
        each = ", ".join(in_words(hidden[key]["trimaran"]) for key in _KEYS)
        notes.append(
            "Trimaran has the better of two plugins and of several settings; its scores are those of its own "
            "code ([tested](../tests/experiments/combofunc/recorded/ORIGIN.md)). What slows a node down "
            "shows in the load that it sees, which is the best case for it; where load says nothing of "
            "speed, its row is "
            f"{each}."
        )
    if took := figures.get("decision_ms_of"):
        each = ", ".join(f"{arm} {took[arm]['mean']:.1f}" for arm in took)
        notes.append(f"Mean CPU time of a decision in ms (the paper's table 4): {each}.")
    return Section(
        f"ComboFunc: sizes and places, {how}", columns, rows, notes, _summary(figures), list(_plots(figures))
    )


def _summary(figures: Figures) -> Summary:
    time, unit_cost, cost = (figures[key] for key in _KEYS)
    # A mean below 1, and a time that is not surely above it.
    behind = [
        f"{kind} against {_ARMS.get(arm, arm)}: {in_words(ratio)}"
        for kind, ratios, bound in (
            ("time", time, "low"),
            ("cost by eq. (10)", unit_cost, "geomean"),
            ("cost of what was asked for", cost, "geomean"),
        )
        for arm, ratio in ratios.items()
        if ratio[bound] < 1
    ]
    return Summary(
        "ComboFunc",
        f"a stock Deployment takes {in_words(time['stock'])} times as long to scale up, at "
        f"{in_words(unit_cost['stock'])} times the cost of a unit of concurrency",
        "; ".join(behind),
    )


def _plots(figures: Figures) -> list[Plot]:
    time = printed("combofunc.time")
    in_place, cost = printed("combofunc.time_without_in_place"), printed("combofunc.cost")
    paper = [*time.dots(_label), *in_place.dots(_label)]
    axis = "baseline / ours, above 1 ours is better"
    plots: list[Plot] = [
        Dots(
            "Scaling time",
            axis,
            [*_measured(figures["time_ratio"]), *paper],
            f"{time.place}{_MEAN}",
            logarithmic=True,
        ),
        Dots(
            "Resource cost, eq. (10)",
            axis,
            [*_measured(figures["unit_cost_ratio"]), *cost.dots(_label)],
            f"{cost.place}{_MEAN}",
        ),
    ]
    of_functions = {
        name: [
            *(Dot(_label(arm), of["by_function"][function]) for arm, of in figures["time_ratio"].items()),
            *time.dots(_label, function),
            *in_place.dots(_label, function),
        ]
        for function, name in _FUNCTIONS.items()
        if all(function in of.get("by_function", {}) for of in figures["time_ratio"].values())
    }
    values = [dot.value for dots in of_functions.values() for dot in dots if dot.value is not None]
    plots += [
        Dots(f"Scaling time, {name}", axis, dots, time.place, logarithmic=True, also_holds=values)
        for name, dots in of_functions.items()
    ]
    varied = figures.get("in_virtual_time", figures)  # of a live run
    if decisions := varied.get("decision_ms_of"):
        table = printed("combofunc.decision")
        own = [Dot(_label(arm), of["mean"], ours=arm == "ours") for arm, of in decisions.items()]
        plots.append(
            Dots("Time of a decision", "ms, mean (log)", [*own, *table.dots(_label)], table.place, None, True)
        )
    if weights := varied.get("price_weight"):
        for key, label, figure in (("scaling_s", _TIME, "fig. 17"), ("cost", _COST, "fig. 18")):
            track = {"ours": [(float(at), _mean(of, key)) for at, of in weights.items()]}
            plots.append(Lines("Over the trade-off parameter", "lambda", label, _curves(track), figure))
    for of, what, figure in (
        ("nodes", "nodes", "fig. 19"),
        ("tau_create_s", "seconds to create a container", "fig. 21"),
    ):
        if by_value := varied.get(of):
            plots.append(
                Lines(
                    f"Over {what}", what, _TIME, _over(by_value), figure,
                    logarithmic_x=True, logarithmic_y=True,
                )
            )  # fmt: skip
    if kept := varied.get("keep_warm_s"):
        plots.append(_front(kept))
    return plots


def _front(kept: Figures) -> Plot:
    """Each point of a line is another keep time; the last, where the labels are, keeps nothing."""
    arms = next(iter(kept.values()))
    tracks = {
        arm: [
            (_mean(kept[s][arm], "scaling_s"), _mean(kept[s][arm], "cost"))
            for s in sorted(kept, key=float, reverse=True)
        ]
        for arm in arms
    }
    return Lines(
        "Time and cost at other keep times: left and low is better in both",
        _TIME,
        _COST,
        _curves(tracks),
        picture="results/combofunc-front.png",
    )


def _over(by_value: Figures) -> list[Curve]:
    arms = next(iter(by_value.values()))
    values = sorted(by_value, key=float)
    return _curves({arm: [(float(v), _mean(by_value[v][arm], "scaling_s")) for v in values] for arm in arms})


def _curves(tracks: Mapping[str, list[tuple[float, float]]]) -> list[Curve]:
    return [
        Curve(_label(arm), [Point(*at) for at in track], ours=arm == "ours") for arm, track in tracks.items()
    ]


def _mean(by_function: Figures, key: str) -> float:
    return fmean(of[key] for of in by_function.values())


def _measured(ratios: Figures) -> list[Dot]:
    return [Dot(_label(arm), of["geomean"], of["low"], of["high"]) for arm, of in ratios.items()]


def _label(arm: str) -> str:
    return _SHORT.get(arm, arm)


def planner(figures: Figures) -> Section:
    columns = ("cost over the least possible", "mean", "worst", "reaches less than possible")
    rows = [
        (
            name,
            f"{figures[f'{prefix}excess_mean']:.2%}",
            f"{figures[f'{prefix}excess_worst']:.1%}",
            str(figures[f"{prefix}short"]),
        )
        for name, prefix in (("ours", ""), ("the paper's Algorithm 1", "greedy_"))
    ]
    note = (
        f"{figures['instances']} small problems whose best plan was proven. A plan for 16 nodes and 16 sizes "
        f"takes {figures['p99_cpu_ms_16x16']:.0f} ms of a core at the 99th percentile, for 5,000 nodes "
        f"{figures['cpu_ms_5000x16']:.0f} ms in the median."
    )
    plots: list[Plot] = []
    if by_sizes := figures.get("by_sizes"):
        each = ", ".join(f"{row['median_cpu_ms']:.1f} ms with {row['sizes']}" for row in by_sizes)
        note += f" Over the number of sizes on offer (fig. 23), medians at 16 nodes: {each}."
        plots.append(
            _planning("Planning over sizes on offer", "sizes of containers", "sizes", by_sizes, "fig. 23")
        )
    if by_nodes := figures.get("by_nodes"):
        for start in dict.fromkeys(row["start"] for row in by_nodes):
            of_start = [row for row in by_nodes if row["start"] == start]
            plots.append(_planning(f"Planning over nodes, {start}", "nodes", "nodes", of_start, "fig. 24"))
    return Section("ComboFunc: the planner", columns, rows, [note], plots=plots)


def _planning(title: str, x: str, key: str, rows: list[Figures], source: str) -> Plot:
    curves = [
        Curve(name, [Point(row[key], row[of]) for row in rows], ours=name == "median")
        for of, name in (("median_cpu_ms", "median"), ("p99_cpu_ms", "p99"))
    ]
    return Lines(title, x, "CPU time of a plan, ms", curves, source)
