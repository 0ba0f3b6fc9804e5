"""PulseNet in docs/results.md. Pure."""

from __future__ import annotations

from experiments.intervals import in_words
from experiments.pulsenet.figures import CDF
from experiments.results.papers import printed
from experiments.results.plot import Curve, Dot, Dots, Lines, Plot, Point
from experiments.results.section import Figures, Section, Summary, ratio

__all__ = ["pulsenet", "starts"]

_SYSTEMS = {
    "pulsenet": "PulseNet, ours (variant best)",
    "paper": "PulseNet, the paper's rules, starts of 150 ms",
    "asynchronous": "Knative's autoscaler, 60 s window",
    "synchronous": "created on the request's path, kept 10 min",
    "linear_regression": "linear regression over Knative's autoscaler",
    "nhits": "NHITS (small, numpy) over Knative's autoscaler",
    "warm_pool": "a spare pod of each function, kept 10 min",
    "dirigent": "Dirigent: Knative's autoscaler, creations of 0.2 s",
}


def pulsenet(figures: Figures) -> Section:
    columns = (
        "system",
        "slowdown",
        "cost",
        "slowdown / ours",
        "cost / ours: above 1, ours is better",
        "creations",
    )
    slowdown, cost = figures["slowdown_ratio"], figures["cost_ratio"]
    rows = [
        (
            _SYSTEMS.get(name, name),
            f"{of['slowdown']:.2f}",
            f"{of['cost']:.2f}",
            ratio(slowdown[name]) if name in slowdown else "",
            ratio(cost[name]) if name in cost else "",
            f"{of['creations']:.0f}",
        )
        for name, of in figures["systems"].items()
    ]
    seeds = figures["seeds"]
    drawn = f"{len(seeds)} seeds ({min(seeds)} to {max(seeds)})"
    notes = [
        f"{figures['functions']} functions of Azure's trace, {drawn}, "
        "in virtual time (a short live run: on the page below). Slowdown: geometric mean over functions of "
        "p99 of response over run time; cost: memory of all instances over that of busy ones, prepared "
        f"containers included. {figures['regular_share']:.1%} of requests are on the regular track; emergency"
        f" instances use {figures['emergency_cpu_share']:.1%} of the CPU. [More](results/pulsenet.md)."
    ]
    behind = [
        f"{kind} against {name}: {in_words(ratio)}"
        for kind, ratios in (("slowdown", slowdown), ("cost", cost))
        for name, ratio in ratios.items()
        if ratio["low"] < 1
    ]
    summary = Summary(
        "PulseNet (simulated)",
        f"slowdown of Knative's autoscaler is {in_words(slowdown['asynchronous'])} times ours, at "
        f"{in_words(cost['asynchronous'])} times the cost; of synchronous creation "
        f"{in_words(slowdown['synchronous'])} times, at {in_words(cost['synchronous'])} times",
        "; ".join(behind),
    )
    title = "PulseNet: slowdown and cost, in virtual time"
    return Section(title, columns, rows, notes, summary, _plots(figures))


_SHORT = {
    "pulsenet": "ours",
    "paper": "the paper's rules",
    "asynchronous": "Knative, asynchronous",
    "synchronous": "synchronous",
    "linear_regression": "linear regression",
    "nhits": "NHITS",
    "warm_pool": "warm pool",
    "dirigent": "Dirigent",
}


def _plots(figures: Figures) -> list[Plot]:
    slowdown = printed("pulsenet.slowdown")
    of_others = [printed(f"pulsenet.{key}") for key in ("slowdown_over_dirigent", "slowdown_best")]
    cost = printed("pulsenet.cost")
    axis = "other / ours, above 1 ours is better (log)"
    plots: list[Plot] = [
        Dots(
            "Slowdown",
            axis,
            [
                *_ratios(figures["slowdown_ratio"]),
                *(d for p in (slowdown, *of_others) for d in p.dots(_label)),
            ],
            f"{slowdown.place}; of predictors it prints the best",
            logarithmic=True,
        ),
        Dots(
            "Cost", axis, [*_ratios(figures["cost_ratio"]), *cost.dots(_label)], cost.place, logarithmic=True
        ),
        Lines(
            "Slowdown and cost: left and low is better in both",
            "cost, memory of all / of busy instances (log)",
            "slowdown (log)",
            [_curve(name, [(of["cost"], of["slowdown"])]) for name, of in figures["systems"].items()],
            "fig. 11",
            logarithmic_x=True,
            logarithmic_y=True,
        ),
    ]
    delays = {
        name: list(zip(of["mean_delay_by_function_ms"], (p / 100 for p in CDF), strict=True))
        for name, of in figures["systems"].items()
        if "mean_delay_by_function_ms" in of
    }
    if delays:
        plots.append(
            Lines(
                "Delay until a function's code runs, means of functions",
                "ms (log)",
                "share of functions",
                [_curve(name, track) for name, track in delays.items()],
                "fig. 7",
                logarithmic_x=True,
            )
        )
    return plots


def _ratios(ratios: Figures) -> list[Dot]:
    return [Dot(_label(name), of["geomean"], of["low"], of["high"]) for name, of in ratios.items()]


def _curve(name: str, track: list[tuple[float, float]]) -> Curve:
    return Curve(_label(name), [Point(*at) for at in track], ours=name == "pulsenet")


def _label(name: str) -> str:
    return _SHORT.get(name, name)


_ORIGINS = {
    "frozen": "started, initialised and frozen",
    "created": "container created, not started",
    "cold": "image only",
}
_PREPARED = {"frozen": "frozen", "created": "created", "cold": "image only"}


def starts(figures: Figures) -> Section:
    columns = ("function", "prepared", "ms p50", "ms p99", "agent's part, ms p50", "ten at once, ms p99")
    keys = ("start_ms_p50", "start_ms_p99", "agent_ms_p50", "ten_at_once_ms_p99")
    rows = [
        (function, _ORIGINS[origin], *(f"{of[key]:g}" for key in keys))
        for function, origins in figures["starts"].items()
        for origin, of in origins.items()
    ]
    notes = [
        "From a placement's Start (gRPC, mutual TLS) until the function's first HTTP answer, with runc, "
        "limits and seccomp; 200 starts alone (cold: 50) and 30 times ten at once, each from a full pool. "
        "The paper's microVM snapshot takes 150 ms. `python-300ms` imports for 300 ms, which only a frozen "
        "instance has behind it."
    ]
    times = {
        origin: f"{of['start_ms_p50']:g} ms (p99 {of['start_ms_p99']:g})"
        for origin, of in figures["starts"]["static"].items()
    }
    summary = Summary(
        "PulseNet's emergency instances",
        f"first answer after {times['created']} from a created container, {times['frozen']} if frozen",
        f"a function that was not prepared: {times['cold']}",
    )
    paper = printed("pulsenet.start")
    dots = [
        Dot(f"{function}, {_PREPARED[origin]}", of["start_ms_p50"], of["start_ms_p50"], of["start_ms_p99"])
        for function, origins in figures["starts"].items()
        for origin, of in origins.items()
    ]
    plot = Dots(
        "Until an instance's first answer: median, and up to the 99th percentile",
        "ms (log)",
        [*dots, *paper.dots(lambda _: "microVM snapshot, mean")],
        paper.place,
        None,
        True,
    )
    title = "PulseNet: how long emergency instances take to start"
    return Section(title, columns, rows, notes, summary, [plot])
