"""Pictures of experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["placement_plot"]

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
