"""Draws a search: its points numbered in the order measured, the fitted curve, its chord and the knee."""

from __future__ import annotations

from pathlib import Path

from hpa_replacement.explanation import Explanation

__all__ = ["png", "text"]

_WIDTH, _HEIGHT = 60, 15
_NUMBERS = "123456789abcdefghijklmnopqrstuvwxyz"


def text(explanation: Explanation) -> str:
    """Draw for a terminal; empty if nothing was measured."""
    top = max(
        [p.score for p in explanation.points] + list(explanation.fit.scores if explanation.fit else ()),
        default=0.0,
    )
    if top <= 0 or explanation.left == explanation.right:
        return ""
    cells = [[" "] * _WIDTH for _ in range(_HEIGHT)]

    def put(replicas: float, score: float, mark: str) -> None:
        column = round((replicas - explanation.left) / (explanation.right - explanation.left) * (_WIDTH - 1))
        row = round((1 - score / top) * (_HEIGHT - 1))
        if 0 <= column < _WIDTH and 0 <= row < _HEIGHT:
            cells[row][column] = mark

    if explanation.knee is not None:
        for row in range(_HEIGHT):
            put(explanation.knee, top * row / (_HEIGHT - 1), ":")
    if explanation.fit:
        (x0, y0), (x1, y1) = _chord(explanation)
        for step in range(_WIDTH):
            share = step / (_WIDTH - 1)
            put(x0 + share * (x1 - x0), y0 + share * (y1 - y0), "-")
        for replicas, score in zip(explanation.fit.replicas, explanation.fit.scores, strict=True):
            put(replicas, score, ".")
    for point in explanation.evidence:
        put(point.replicas, point.score, "o")
    for number, point in enumerate(explanation.points):
        put(point.replicas, point.score, _NUMBERS[number % len(_NUMBERS)])
    labels = [f"{top:9.3g} |", *["          |"] * (_HEIGHT - 2), f"{0:9} |"]
    lines = [label + "".join(row).rstrip() for label, row in zip(labels, cells, strict=True)]
    ends = f"{explanation.left}".ljust(_WIDTH - len(str(explanation.right))) + str(explanation.right)
    return "\n".join([*lines, "          +" + "-" * _WIDTH, "           " + ends])


def _chord(explanation: Explanation) -> tuple[tuple[float, float], tuple[float, float]]:
    """The line Kneedle measures the height above: from the curve's left end to its highest score."""
    if explanation.fit is None:
        raise ValueError("chord: there is no curve")
    return (explanation.left, explanation.fit.scores[0]), (explanation.right, max(explanation.fit.scores))


def png(explanation: Explanation, file: Path) -> None:
    from matplotlib.figure import Figure  # noqa: PLC0415  # takes a second, which the controller should not wait for

    figure = Figure(figsize=(8, 4.8))  # without pyplot: a file needs no screen
    axes = figure.subplots()
    if explanation.fit:
        axes.plot(
            explanation.fit.replicas, explanation.fit.scores, color="#1f6fb4", lw=1.8, label="likeliest curve"
        )
        (x0, y0), (x1, y1) = _chord(explanation)
        axes.plot([x0, x1], [y0, y1], color="#9a9a9a", lw=1, ls="--", label="chord")
    if explanation.evidence:
        x, y = [p.replicas for p in explanation.evidence], [p.score for p in explanation.evidence]
        axes.scatter(x, y, s=30, facecolors="none", edgecolors="#9a9a9a", label="measured before")
    xs, ys = [p.replicas for p in explanation.points], [p.score for p in explanation.points]
    axes.plot(xs, ys, color="#d1495b", lw=0.6, alpha=0.5)
    axes.scatter(xs, ys, s=36, color="#d1495b", zorder=3, label="samples, in their order")
    for number, point in enumerate(explanation.points, 1):
        axes.annotate(str(number), (point.replicas, point.score), (4, 5), textcoords="offset points")
    if explanation.knee is not None:
        axes.axvline(explanation.knee, color="#3a7d44", lw=1.2, ls=":", label=f"knee: {explanation.knee}")
    axes.set_xlim(0, explanation.right * 1.02)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("replicas")
    axes.set_ylabel("score (throughput / latency)")
    axes.set_title(f"{explanation.policy}: {'; '.join(explanation.reasons)}", fontsize=9, wrap=True)
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
