"""Kneedle (Satopaa et al. 2011) through kneed: concave, increasing, S = 1, at least three points."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["find_knee"]


def find_knee(points: Iterable[tuple[int, float]]) -> int | None:
    """The x of the first knee, or None. If an x was measured twice, the later value counts."""
    latest = dict(points)
    if len(latest) < 3 or max(latest.values()) <= min(latest.values()):
        return None  # kneed divides by the height
    # Imported here: kneed imports pyplot if matplotlib is installed, which takes a second.
    from kneed import KneeLocator  # noqa: PLC0415

    x = sorted(latest)
    knee = KneeLocator(x, [latest[i] for i in x], S=1.0, curve="concave", direction="increasing").knee
    return None if knee is None else int(knee)
