"""Pictures of experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

__all__ = ["placement_curves", "placement_plot"]

COLOURS = {"stock": "#9a9a9a", "extender": "#1f6fb4"}
LABELS = {"stock": "stock kube-scheduler", "extender": "the same with surgekit's extender"}


def placement_plot(played: dict[str, Any], file: Path) -> None:
    """One round: pods Ready over time, and their nodes from fast to slow."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # a second of import, that --help should not wait for

    figure = Figure(figsize=(11, 4.2))  # without pyplot: a file needs no screen
    over_time, by_node = figure.subplots(1, 2, width_ratios=(1.15, 1))
    for arm in ("stock", "extender"):
        times = played[arm]["ready_s"]
        over_time.step(
            [0, *times], range(len(times) + 1), where="post", color=COLOURS[arm], lw=2, label=LABELS[arm]
        )
        over_time.axvline(times[-1], color=COLOURS[arm], ls=":", lw=1)
        over_time.annotate(
            f"{times[-1]:.1f} s", (times[-1], len(times) * 0.03), color=COLOURS[arm], ha="right"
        )
    over_time.set_xlabel("seconds since the scale-out")
    over_time.set_ylabel("pods Ready")
    over_time.set_title(f"{len(times)} pods are Ready {played['speedup']:.2f} times as fast")
    over_time.legend(frameon=False, loc="upper left")
    taus = played["extender"]["tau_create_s"]
    nodes = sorted(taus, key=taus.__getitem__)
    for offset, arm in ((-0.2, "stock"), (0.2, "extender")):
        counts = [played[arm]["placed"].get(n, 0) for n in nodes]
        by_node.bar([i + offset for i in range(len(nodes))], counts, width=0.4, color=COLOURS[arm])
    by_node.set_xticks(range(len(nodes)), [f"{taus[n]:.2f}" for n in nodes], rotation=90, fontsize=8)
    by_node.set_xlabel("node's seconds per container, fast to slow")
    by_node.set_ylabel("pods placed there")
    by_node.set_title("measured speed decides who gets how many")
    for axes in (over_time, by_node):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)


def placement_curves(points: Sequence[Mapping[str, Any]], file: Path) -> None:
    """The gain over how fast speeds change and how unequal nodes are; where the probe's samples are too old
    to follow, a line says so."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # as above

    from experiments.placement.node_loads import BUSY_SPREADS, BUSY_STEPS_S  # noqa: PLC0415  # the demo has no need

    figure = Figure(figsize=(11, 4.2))
    usual = max((p["spread"] for p in points), key=lambda s: sum(p["spread"] == s for p in points))
    usual_step_s = max((p["step_s"] for p in points), key=lambda s: sum(p["step_s"] == s for p in points))
    by_step, by_spread = (sorted(points, key=itemgetter(key)) for key in ("step_s", "spread"))
    panels = (
        ("step_s", [p for p in by_step if p["spread"] == usual], "seconds between changes of a node's speed"),
        (
            "spread",
            [p for p in by_spread if p["step_s"] == usual_step_s],
            "spread of ln(tau_c)",
        ),
    )
    labels = {"ours": ("ours", "#1f6fb4"), "known": ("if speeds were known", "#8fbce6"),
              "counted": ("without speeds", "#9a9a9a")}  # fmt: skip
    for axes, (key, drawn, label) in zip(figure.subplots(1, 2, sharey=True), panels, strict=True):
        at = [point[key] for point in drawn]
        for policy, (name, colour) in labels.items():
            found = [point["speedup"][policy] for point in drawn]
            axes.plot(at, [f["geomean"] for f in found], "o-", color=colour, label=name, ms=4)
            axes.fill_between(
                at, [f["low"] for f in found], [f["high"] for f in found], color=colour, alpha=0.15, lw=0
            )
        low, high = BUSY_STEPS_S if key == "step_s" else BUSY_SPREADS
        axes.axvspan(low, high, color="#e08e2b", alpha=0.15, lw=0)
        axes.annotate(
            "busy nodes,\nby their CPU load", (low, 0.99), xycoords=axes.get_xaxis_transform(),
            color="#a5600f", va="top", fontsize=8,
        )  # fmt: skip
        axes.set_xlabel(label)
        axes.spines[["top", "right"]].set_visible(False)
        if key == "step_s":
            age_s = sum(point["probe_age_s"]["mean"] for point in drawn) / len(drawn)
            axes.set_xscale("log")
            axes.set_xticks(at, [f"{value:g}" for value in at])
            axes.minorticks_off()
            axes.axvline(age_s, color="black", ls=":", lw=1)
            axes.annotate(f" age of the probe's samples: {age_s:.1f} s", (age_s, 1.6))
            axes.set_ylabel("stock's seconds until all are Ready / ours")
            axes.legend(frameon=False)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=100)
