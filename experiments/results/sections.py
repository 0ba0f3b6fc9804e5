"""The tables of docs/results.md: one function for each bench, from its figures. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from experiments.intervals import in_words
from experiments.results.escra_section import escra
from experiments.results.fcma_sections import expander, joint, nodes, solver
from experiments.results.pulsenet_section import pulsenet, starts
from experiments.results.section import Figures, Section, Summary

__all__ = ["SECTIONS"]

# Seconds between changes, and spread: those of busy nodes, by their CPU loads (docs/results/node-speeds.md).
_BUSY_NODES = (20.0, 0.34)
_EQUAL_NODES = (60.0, 0.0)
_PAPERS_LOADS = ("stationary", "dynamic")  # of KneeScale, with the paper's budget
_ARMS = {
    "stock": "a Deployment of one size, stock scheduler",
    "random_fit": "Random Fit",
    "trimaran": "one size, placed by Trimaran",
    "autopilot": "Autopilot: one size, resized in place",
    "no_inplace": "ours without resizing in place",
}


def _combofunc(figures: Figures) -> Section:
    columns = (
        "baseline / ours: above 1, ours is better",
        "scaling time",
        "cost, eq. (10)",
        "cost of what was asked for",
    )
    keys = ("time_ratio", "unit_cost_ratio", "cost_ratio")
    rows = [(_ARMS.get(arm, arm), *(in_words(figures[key][arm]) for key in keys)) for arm in figures[keys[0]]]
    how, seeds = "in virtual time" if figures.get("simulated") else "live", figures["seeds"]
    notes = [
        f"Four functions on 16 nodes, targets from Azure's trace, {len(seeds)} seeds "
        f"({min(seeds)} to {max(seeds)}), {how}. "
        "Every baseline has the sizes and the keep time that are best for it. Eq. (10) divides by the "
        "concurrency that is there; what was asked for is the same for all arms "
        "([why both](decisions/comparisons.md))."
    ]
    if hidden := figures.get("load_hides_speed"):
        each = ", ".join(in_words(hidden[key]["trimaran"]) for key in keys)
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
    if figures.get("simulated"):
        notes.append(
            "The same arms at other keep times (`--plots` draws it; left and low is better in both):"
            "\n\n![Time over cost](results/combofunc-front.png)"
        )
    time, unit_cost, cost = (figures[key] for key in keys)
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
    summary = Summary(
        "ComboFunc",
        f"a stock Deployment takes {in_words(time['stock'])} times as long to scale up, at "
        f"{in_words(unit_cost['stock'])} times the cost of a unit of concurrency",
        "; ".join(behind),
    )
    return Section(f"ComboFunc: sizes and places, {how}", columns, rows, notes, summary)


def _knee_search(figures: Figures) -> Section:
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
    return Section("KneeScale: the search alone", columns, rows, [note], summary)


def _pulls(figures: Figures) -> Section:
    found = figures["image_pull"]
    columns = ("pods at once, by image", "seconds, real node", "quartiles", "emulated", "error")
    rows = [
        (
            name,
            f"{cell['measured_s']:.2f}",
            f"{cell['lower_quartile_s']:.2f} to {cell['upper_quartile_s']:.2f}",
            f"{cell['emulated_s']:.2f}",
            f"{cell['error']:.0%}",
        )
        for name, cell in found["cells"].items()
    ]
    note = (
        f"A pull takes {found['fixed_s']:.2f} s and a second for every {found['mebibytes_per_s']:.0f} MiB, "
        "fitted to other rounds than those shown. The emulation is off by "
        f"{found['pull_error_mean']:.1%} in the mean of the cells with a pull, by "
        f"{found['pull_error_worst']:.1%} at worst. The registry runs on the same machine."
    )
    return Section("Lab: image pulls, emulated and real", columns, rows, [note])


def _placement_curve(figures: Figures) -> Section:
    columns = (
        *("speeds change every", "spread of ln(tau)", "stock / ours: above 1, ours is sooner"),
        *("if speeds were known", "without speeds", "age of the probe's samples"),
    )
    rows = [
        (
            f"{point['step_s']:g} s",
            f"{point['spread']:g}",
            *(in_words(point["speedup"][policy]) for policy in ("ours", "known", "counted")),
            f"{point['probe_age_s']['mean']:.1f} s",
        )
        for point in figures["points"]
    ]
    note = (
        "Seconds until 200 new pods are Ready on 16 nodes whose speed wanders, in virtual time. The first "
        "two columns are the axes: how fast speeds change, and how unequal they are."
        "\n\n![The gain over both](results/placement-curves.png)"
    )
    where = (
        "**Where real clusters are:** nobody has published how fast nodes create containers, moment by "
        "moment. The CPU loads of six busy machines of Alibaba's trace change as speeds do here with steps "
        "of 20 to 30 s and a spread of 0.34 (0.21 to 0.53 by machine); that creations slow down with that "
        "load is assumed. Idle machines of one kind are nearly alike: a spread of at most 0.1, and hardly "
        "any gain. The other benches use steps of 60 s and a spread of 0.34. For these steps there is no "
        "source; here they gain as much as steps of 30 s. [Sources, and what nobody measured]"
        "(results/node-speeds.md)."
    )
    points = {(p["step_s"], p["spread"]): in_words(p["speedup"]["ours"]) for p in figures["points"]}
    summary = None
    if {_BUSY_NODES, _EQUAL_NODES} <= points.keys():
        summary = Summary(
            "placement",
            f"with stock, 200 pods take {points[_BUSY_NODES]} times as long until all are Ready, if speeds "
            "of nodes change as the CPU loads of busy machines do",
            f"on nodes of equal speed: {points[_EQUAL_NODES]} times",
        )
    return Section("Placement: over how speeds change", columns, rows, [note, where], summary)


def _extender(figures: Figures) -> Section:
    columns = ("", f"{figures['nodes']} nodes")
    rows = [
        ("pods/s with the extender / stock", in_words(figures["ratio"])),
        ("pods/s of pods that did not opt in / stock", in_words(figures["outside_ratio"])),
        ("pods/s, stock", f"{figures['stock_pods_per_s']:.0f}"),
        (
            "one `/prioritize`, median and 99th percentile",
            f"{figures['prioritize_ms_p50']:.2f} ms, {figures['prioritize_ms_p99']:.1f} ms",
        ),
    ]
    note = (
        f"Medians of {figures['rounds']} rounds in which the arms alternate; everything shares the machine."
    )
    summary = Summary(
        f"the extender, {figures['nodes']:,} nodes",
        f"pods that did not opt in: {in_words(figures['outside_ratio'])} of stock's pods/s",
        f"pods that opted in: {in_words(figures['ratio'])} of stock's pods/s",
    )
    return Section(
        f"Extender: speed of kube-scheduler, {figures['nodes']:,} nodes", columns, rows, [note], summary
    )


def _planner(figures: Figures) -> Section:
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
    if by_sizes := figures.get("by_sizes"):
        each = ", ".join(f"{row['median_cpu_ms']:.1f} ms with {row['sizes']}" for row in by_sizes)
        note += f" Over the number of sizes on offer (fig. 23), medians at 16 nodes: {each}."
    return Section("ComboFunc: the planner", columns, rows, [note])


def _placement(figures: Figures) -> Section:
    columns = ("", "stock / ours: above 1, ours is sooner")
    rows = [("seconds until all pods are Ready", in_words(figures["speedup"]))]
    if figures["equal_nodes_speedup"]:
        rows.append(("the same on nodes of equal speed", in_words(figures["equal_nodes_speedup"])))
    rows.append(("worst round", f"{figures['speedup_worst_round']:.2f}"))
    note = "200 pods on 16 nodes, live: real scheduler, extender and probe, emulated nodes."
    return Section("Placement: live", columns, rows, [note])


def _kneescale(figures: Figures) -> Section:
    loads = list(figures["ratio_over"])
    columns = ("ours / other, throughput / latency: above 1, ours is better", *loads)
    arms = dict.fromkeys(arm for load in loads for arm in figures["ratio_over"][load])
    rows = [
        (arm, *(in_words(of[arm]) if arm in (of := figures["ratio_over"][load]) else "" for load in loads))
        for arm in arms
    ]
    note = (
        "Cumulative throughput / latency under one budget of replicas. `constant` keeps what the budget pays "
        "for; `hpaN` is the stock HPA at N %."
    )
    notes = [note]
    for load, arms in figures.get("front", {}).items():
        each = ", ".join(
            f"{arm} " + " / ".join(f"{of[key]['geomean']:.2f}" for key in ("replicas", "latency", "requests"))
            for arm, of in arms.items()
        )
        better = [arm for arm, of in arms.items() if of["better_in_both"]]
        verdict = ", ".join(better) if better else "none"
        notes.append(
            f"Replicas / latency / requests served of the others, as multiples of ours, {load}: {each}. "
            f"Cheaper and quicker than ours, and serves no less: {verdict}."
        )
    title, unusual = "KneeScale: replicas under a budget", [x for x in loads if x not in _PAPERS_LOADS]
    if any("x budget" in load for load in unusual):
        notes.append(
            "All budgets together (`--plots` draws it; left and low is better in both):"
            "\n\n![Latency over replicas](results/kneescale-front.png)"
        )
    if unusual:
        return Section(f"{title} ({'; '.join(unusual)})", columns, rows, notes)
    return Section(title, columns, rows, notes, _kneescale_summary(figures))


def _kneescale_summary(figures: Figures) -> Summary | None:
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


def _percent(interval: Figures) -> str:
    return f"{interval['mean']:.0%} ({interval['low']:.0%} to {interval['high']:.0%})"


# In the order of the page.
SECTIONS: Mapping[str, Callable[[Figures], Section]] = {
    "combofunc": _combofunc,
    "combofunc --simulated": _combofunc,
    "planner": _planner,
    "placement": _placement,
    "placement --simulated": _placement_curve,
    "extender": _extender,
    "kneescale": _kneescale,
    "kneescale --simulated": _kneescale,
    "knee-search": _knee_search,
    "fcma": solver,
    "nodes": nodes,
    "nodes --joint": joint,
    "expander": expander,
    "escra": escra,
    "pulsenet --simulated": pulsenet,
    "pulsenet --starts": starts,
    "node-model --pulls-only": _pulls,
}
