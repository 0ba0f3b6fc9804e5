"""The sections of FCMA: its solver, the expander, and nodes through Karpenter. Pure."""

from __future__ import annotations

from experiments.intervals import in_words
from experiments.results.papers import printed
from experiments.results.plot import Dot, Dots
from experiments.results.section import Figures, Section, Summary, ratio

__all__ = ["expander", "joint", "nodes", "solver"]

_VARIANTS = {
    "paper": "the paper's phases",
    "ffc": "first fit, by cores",
    "ffp": "first fit, by price",
}


def solver(figures: Figures) -> Section:
    columns = (
        "cost / what the authors' program found: below 1, it is cheaper",
        *("all problems together", "mean", "worst problem", "over the best known bound, mean"),
    )
    keys = ("cost_ratio_total", "cost_ratio_mean", "cost_ratio_worst", "bound_ratio_mean")
    variants = {"ours": figures} | {name: figures[key] for key, name in _VARIANTS.items() if key in figures}
    rows = [(name, *(f"{of[key]:.3f}" for key in keys)) for name, of in variants.items()]
    note = (
        f"{figures['problems']} of the authors' problems, 3 s each by the clock of a shared machine: where "
        "it is busy, plans are found later, and some not at all. So times are left out."
    )
    axis = "cost / the authors' program, below 1 is cheaper (log)"
    cost = [Dot(name, of["cost_ratio_mean"], ours=name == "ours") for name, of in variants.items()]
    bound = [Dot(name, of["bound_ratio_mean"], ours=name == "ours") for name, of in variants.items()]
    paper = printed("fcma.bound")
    plots = [
        Dots("Cost of the plans, mean", axis, cost, "fig. 7", logarithmic=True),
        Dots(
            "Cost over the best known bound, mean; the paper's worst",
            "cost / bound, 1 is the least possible (log)",
            [*bound, *paper.dots(lambda _: "FCMA, the paper's worst")],
            paper.place,
            logarithmic=True,
        ),
    ]
    return Section(f"FCMA: the solver, {figures['set']}", columns, rows, [note], plots=plots)


def expander(figures: Figures) -> Section:
    columns = ("ours / the caller's own expander: below 1, ours is cheaper", "cost", "worst scale-up")
    rows = [
        (name, ratio(figures[f"cost over {name}"], "below", 3), f"{figures[f'worst over {name}']:.2f}")
        for name in ("least-waste", "price", "most-pods", "random")
    ]
    dots = [Dot(name, cell.value, cell.low, cell.high) for name, cell, _ in rows]
    plot = Dots("Cost of the nodes rented", "ours / the caller's own expander, below 1 ours is cheaper", dots)
    note = (
        f"{figures['mixes']} scale-ups of a simulated Cluster Autoscaler; pods spread as kube-scheduler "
        "spreads them, and what stays pending leads to another scale-up. A decision has its deadline in CPU "
        "time, as on a core of its own."
    )
    summary = Summary(
        "FCMA's expander",
        f"nodes cost {in_words(figures['cost over least-waste'], 3)} of what least-waste rents",
        f"the worst of {figures['mixes']} scale-ups: {figures['worst over least-waste']:.2f}",
    )
    return Section("FCMA: the expander", columns, rows, [note], summary, [plot])


def nodes(figures: Figures) -> Section:
    columns = ("ours / Karpenter: below 1, ours is better", "mean", "worst mix")
    rows = [
        (what, ratio(figures[key]["karpenter"], "below"), f"{figures[key]['karpenter']['worst']:.2f}")
        for what, key in (("cost of the nodes", "cost_ratio"), ("seconds until all pods run", "time_ratio"))
    ]
    note = "Karpenter's cost is read after it has consolidated. Both rent from the same on-demand classes."
    summary = Summary(
        "FCMA's node planner",
        f"nodes cost {in_words(figures['cost_ratio']['karpenter'])} of Karpenter's",
        "seconds until all pods run, the worst mix: "
        f"{figures['time_ratio']['karpenter']['worst']:.2f} of Karpenter's",
    )
    dots = [Dot(what, cell.value, cell.low, cell.high) for what, cell, _ in rows]
    plot = Dots("Beside Karpenter", "ours / Karpenter, below 1 ours is better", dots)
    return Section("FCMA: nodes through Karpenter", columns, rows, [note], summary, [plot])


def joint(figures: Figures) -> Section:
    columns = ("sizes and classes chosen together / ...: below 1, together is cheaper", "cost", "worst")
    rows = [
        (name.removeprefix("joint / "), ratio(of, "below", 3), f"{of['worst']:.2f}")
        for name, of in figures.items()
        if name.startswith("joint / ")
    ]
    note = (
        f"Shortages drawn with seeds {figures['seeds']}, simulated on the shipped price table. ComboFunc "
        "alone: its sizes, and for these the cheapest of Karpenter's first choice and two first fits. FCMA "
        "alone: one size of each function. Each with its best setting on other seeds; the last also knows in "
        "hindsight which size of each function is cheapest."
    )
    dots = [Dot(name, cell.value, cell.low, cell.high) for name, cell, _ in rows]
    plot = Dots("Cost of the nodes", "together / alone, below 1 together is cheaper", dots)
    return Section("FCMA: sizes of ComboFuncs and nodes together", columns, rows, [note], plots=[plot])
