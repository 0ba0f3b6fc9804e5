"""KneeScale's sections: replicas under a budget, and the search alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.intervals import in_words
from experiments.results.papers import printed
from experiments.results.plot import Curve, Dot, Dots, Lines, Plot, Point
from experiments.results.section import Figures, Section, Summary, ratio

__all__ = ["knee_search", "kneescale"]

_PAPERS_LOADS = ("stationary", "dynamic")  # with the paper's budget


def kneescale(figures: Figures) -> Section:
    loads = list(figures["ratio_over"])
    columns = ("ours / other, throughput / latency: above 1, ours is better", *loads)
    arms = dict.fromkeys(arm for load in loads for arm in figures["ratio_over"][load])
    rows = [
        (arm, *(ratio(of[arm]) if arm in (of := figures["ratio_over"][load]) else "" for load in loads))
        for arm in arms
    ]
    notes = [
        "Cumulative throughput / latency under one budget of replicas. `constant` keeps what the budget pays "
        "for; `hpaN` is the stock HPA at N %."
    ]
    for load, others in figures.get("front", {}).items():
        each = ", ".join(
            f"{arm} " + " / ".join(f"{of[key]['geomean']:.2f}" for key in ("replicas", "latency", "requests"))
            for arm, of in others.items()
        )
        better = [arm for arm, of in others.items() if of["better_in_both"]]
        verdict = ", ".join(better) if better else "none"
        notes.append(
            f"Replicas / latency / requests served of the others, as multiples of ours, {load}: {each}. "
            f"Cheaper and quicker than ours, and serves no less: {verdict}."
        )
    title, unusual = "KneeScale: replicas under a budget", [x for x in loads if x not in _PAPERS_LOADS]
    plots = [plot for load in loads for plot in _plots(figures, load)]
    if any("x budget" in load for load in unusual) and figures.get("front"):
        plots.append(_budgets(figures["front"]))
    if unusual:
        return Section(f"{title} ({'; '.join(unusual)})", columns, rows, notes, plots=plots)
    return Section(title, columns, rows, notes, _summary(figures), plots)


def _plots(figures: Figures, load: str) -> Sequence[Plot]:
    measured = [
        Dot(arm, of["geomean"], of["low"], of["high"]) for arm, of in figures["ratio_over"][load].items()
    ]
    over = Dots(
        f"Cumulative throughput / latency, {load}",
        "ours / other, above 1 ours is better",
        measured,
        logarithmic=True,
    )
    front = figures.get("front", {}).get(load)
    if front:
        spent = [
            Dot(arm, of["replicas"]["geomean"], of["replicas"]["low"], of["replicas"]["high"])
            for arm, of in front.items()
        ]
        replicas = [
            Dots(f"Replicas used, {load}", "other / ours, below 1 it uses fewer", spent, logarithmic=True)
        ]
    else:
        replicas = []
    if load not in _PAPERS_LOADS or load not in figures.get("gain_over", {}):
        return [over, *replicas]
    paper = printed(f"kneescale.{load}")
    best = [Dot(arm, 1 + of["best"]) for arm, of in figures["gain_over"][load].items()]
    beside = Dots(
        f"Cumulative performance, the best of five functions, {load}",
        "ours / other, above 1 ours is better",
        [*best, *paper.dots(str)],
        f"{paper.place}, which prints only the best",
        logarithmic=True,
    )
    return [over, *replicas, beside]


def _budgets(front: Figures) -> Plot:
    """A point for each budget; an arm that depends on the budget is a line."""
    arms = dict.fromkeys(arm for others in front.values() for arm in others)
    tracks = {
        arm: [
            (of[arm]["replicas"]["geomean"], of[arm]["latency"]["geomean"])
            for of in front.values()
            if arm in of
        ]
        for arm in arms
    }
    curves = [Curve(arm, [Point(*at) for at in sorted(track)]) for arm, track in tracks.items()]
    return Lines(
        "Latency over replicas at all budgets: left and low is better in both",
        "replicas / ours (log)",
        "latency / ours (log)",
        [Curve("ours", [Point(1, 1)], ours=True), *curves],
        logarithmic_x=True,
        logarithmic_y=True,
        picture="results/kneescale-front.png",
    )


def _summary(figures: Figures) -> Summary | None:
    over, front = figures["ratio_over"].get("dynamic", {}), figures.get("front", {}).get("dynamic", {})
    if not {"constant", "hpa40"} <= over.keys() & front.keys():
        return None
    spends = front["hpa40"]["replicas"]["geomean"]
    constant, ahead = in_words(over["constant"]), over["constant"]["low"] > 1
    return Summary(
        "KneeScale",
        f"throughput / latency is {in_words(over['hpa40'])} times that of the stock HPA at 40 %, which uses "
        f"{spends:.2f} of its replicas"
        + (f", and {constant} times that of a constant number for the same budget" if ahead else ""),
        "" if ahead else f"against a constant number for the same budget: {constant}",
    )


def knee_search(figures: Figures) -> Section:
    columns = ("search", "within 2 % of capacity", "mean error", "samples, mean (most)")
    rows = [
        (
            name,
            _percent(of["within"]),
            f"{of['error_mean']:.1%}",
            f"{of['samples_mean']:.1f} ({of['samples_most']})",
        )
        for name, of in figures["searches"].items()
    ]
    note = (
        f"{figures['curves']} curves of families whose writer had not seen the search, each sample off "
        f"by {figures['noise']:.0%}. `paper` is KneeScale's Algorithm 1."
    )
    best = figures["searches"]["ours"]
    summary = Summary(
        "KneeScale's search",
        f"{_percent(best['within'])} of unknown curves: the knee within 2 % of capacity, after "
        f"{best['samples_mean']:.0f} samples",
    )
    return Section(
        "KneeScale: the search alone", columns, rows, [note], summary, _search_plots(figures["searches"])
    )


def _search_plots(searches: Figures) -> list[Plot]:
    paper = printed("kneescale.samples")
    within = [
        Dot(
            name,
            100 * (share := of["within"])["mean"],
            100 * share["low"],
            100 * share["high"],
            ours=name == "ours",
        )
        for name, of in searches.items()
    ]
    samples = [Dot(name, of["samples_mean"], ours=name == "ours") for name, of in searches.items()]
    return [
        Dots("The knee is found within 2 % of capacity", "% of curves", within, reference=None, zero=True),
        Dots(
            "Samples until then", "samples, mean (log)", [*samples, *paper.dots(str)], paper.place, None, True
        ),
    ]


def _percent(interval: Figures) -> str:
    return f"{interval['mean']:.0%} ({interval['low']:.0%} to {interval['high']:.0%})"
