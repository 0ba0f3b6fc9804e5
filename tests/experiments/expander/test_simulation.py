"""Whole scale-ups: ours costs no more than the caller's own expanders, and the figures say so."""

from __future__ import annotations

from functools import cache
from typing import Any

from experiments.expander.simulation import OURS, run
from experiments.seeds import TUNING
from tests.cluster_autoscaler_hook.expander.builders import no_plan


@cache
def two_seeds() -> dict[str, Any]:
    return run(TUNING[:2], no_plan, deadline_s=30.0)


def test_ours_is_cheaper_in_every_shape() -> None:
    figures = two_seeds()
    assert figures["mixes"] == 12
    for ratios in [figures, *figures["by shape"].values()]:
        for name in ("price", "least-waste", "random"):
            assert ratios[f"cost over {name}"]["geomean"] <= 1.0, figures["by shape"]
    assert figures["cost over random"]["geomean"] < 0.9
    worst = max(played[OURS] / played["least-waste"] for played in figures["played"])
    assert figures["worst over least-waste"] == round(worst, 4)
    assert all(played[OURS] > 0 for played in figures["played"])


def test_the_same_seed_gives_the_same_figures() -> None:
    again = run(TUNING[:1], no_plan, 30.0)["played"]
    names = {played["mix"] for played in again}
    assert again
    assert again == [played for played in two_seeds()["played"] if played["mix"] in names]
