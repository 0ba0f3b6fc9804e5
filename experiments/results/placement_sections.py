"""What the extender changes: placement live and over how speeds change, and what it costs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.intervals import in_words
from experiments.results.plot import Curve, Dot, Dots, Lines, Plot, Point, Region
from experiments.results.section import Cell, Figures, Section, Summary, ratio

__all__ = ["extender", "placement", "placement_curve", "pulls"]

# Seconds between changes, and spread: those of busy nodes, by their CPU loads (docs/results/node-speeds.md).
_BUSY_NODES = (20.0, 0.34)
_EQUAL_NODES = (60.0, 0.0)
# Of six busy machines of Alibaba's trace (experiments/placement/node_loads.py).
_BUSY_STEPS_S, _BUSY_SPREADS = (20.0, 30.0), (0.21, 0.53)
_POLICIES = {"ours": "ours", "known": "if speeds were known", "counted": "without speeds"}


def placement(figures: Figures) -> Section:
    columns = ("", "stock / ours: above 1, ours is sooner")
    rows = [("seconds until all pods are Ready", ratio(figures["speedup"]))]
    if figures["equal_nodes_speedup"]:
        rows.append(("the same on nodes of equal speed", ratio(figures["equal_nodes_speedup"])))
    worst = ("worst round", f"{figures['speedup_worst_round']:.2f}")
    note = "200 pods on 16 nodes, live: real scheduler, extender and probe, emulated nodes."
    dots = [Dot(label, cell.value, cell.low, cell.high) for label, cell in rows]
    plot = Dots("Seconds until all pods are Ready", "stock / ours, above 1 ours is sooner", dots)
    return Section("Placement: live", columns, [*rows, worst], [note], plots=[plot])


def placement_curve(figures: Figures) -> Section:
    columns = (
        *("speeds change every", "spread of ln(tau)", "stock / ours: above 1, ours is sooner"),
        *("if speeds were known", "without speeds", "age of the probe's samples"),
    )
    rows: list[Sequence[Cell]] = [
        (
            f"{point['step_s']:g} s",
            f"{point['spread']:g}",
            ratio(point["speedup"]["ours"]),
            *(ratio(point["speedup"][policy], None) for policy in ("known", "counted")),
            f"{point['probe_age_s']['mean']:.1f} s",
        )
        for point in figures["points"]
    ]
    note = (
        "Seconds until 200 new pods are Ready on 16 nodes whose speed wanders, in virtual time. The first "
        "two columns are the axes: how fast speeds change, and how unequal they are."
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
    return Section(
        "Placement: over how speeds change", columns, rows, [note, where], summary, _gains(figures["points"])
    )


def _gains(points: list[Figures]) -> list[Plot]:
    """One plot for each axis, along the value of the other that most points have."""
    plots: list[Plot] = []
    for key, other, x, busy, picture in (
        (
            "step_s",
            "spread",
            "seconds between changes of a node's speed",
            _BUSY_STEPS_S,
            "results/placement-curves.png",
        ),
        ("spread", "step_s", "spread of ln(tau), how unequal nodes are", _BUSY_SPREADS, ""),
    ):
        values = [point[other] for point in points]
        usual = max(values, key=values.count)
        along = sorted((p for p in points if p[other] == usual), key=lambda p: float(p[key]))
        curves = [
            Curve(
                label,
                [Point(p[key], (of := p["speedup"][name])["geomean"], of["low"], of["high"]) for p in along],
                ours=name == "ours",
            )
            for name, label in _POLICIES.items()
        ]
        plots.append(
            Lines(
                "The gain, over how fast speeds change"
                if key == "step_s"
                else "The gain, over how unequal nodes are",
                x,
                "stock's seconds until all are Ready / ours",
                curves,
                reference=1.0,
                logarithmic_x=key == "step_s",
                regions=[Region("busy nodes, by their CPU load", *busy)],
                picture=picture,
            )
        )
    return plots


def extender(figures: Figures) -> Section:
    columns = ("", f"{figures['nodes']} nodes")
    opted, outside = ratio(figures["ratio"]), ratio(figures["outside_ratio"])
    rows: list[Sequence[Cell]] = [
        ("pods/s with the extender / stock", opted),
        ("pods/s of pods that did not opt in / stock", outside),
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
        f"pods that did not opt in: {outside} of stock's pods/s",
        f"pods that opted in: {opted} of stock's pods/s",
    )
    dots = [
        Dot("pods that opted in", opted.value, opted.low, opted.high),
        Dot("pods that did not", outside.value, outside.low, outside.high),
    ]
    plot = Dots("Pods scheduled a second", "with the extender / stock, 1 is no loss", dots)
    return Section(
        f"Extender: speed of kube-scheduler, {figures['nodes']:,} nodes",
        columns,
        rows,
        [note],
        summary,
        [plot],
    )


def pulls(figures: Figures) -> Section:
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
    real = [
        Dot(name, c["measured_s"], c["lower_quartile_s"], c["upper_quartile_s"], ours=False)
        for name, c in found["cells"].items()
    ]
    emulated = [Dot(f"{name}, emulated", c["emulated_s"]) for name, c in found["cells"].items()]
    dots = [dot for pair in zip(real, emulated, strict=True) for dot in pair]
    plot = Dots(
        "Until pods run: real node with quartiles, and emulated", "seconds", dots, reference=None, zero=True
    )
    return Section("Lab: image pulls, emulated and real", columns, rows, [note], plots=[plot])
