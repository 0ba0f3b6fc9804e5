"""Whole scale-ups: ours costs no more than the caller's own expanders, and the figures say so."""

from __future__ import annotations

from experiments.expander.simulation import OURS, REPORTING_SEEDS, TUNING_SEEDS, run
from tests.cluster_autoscaler_hook.expander.builders import no_plan


def test_ours_is_cheaper_in_every_shape() -> None:
    figures = run(TUNING_SEEDS[:2], no_plan, deadline_s=30.0)
    assert figures["mixes"] == 12
    for ratios in [figures, *figures["by shape"].values()]:
        for name in ("price", "least-waste", "random"):
            assert ratios[f"cost over {name}"] <= 1.0, figures["by shape"]
    assert figures["cost over random"] < 0.9
    assert all(played[OURS] > 0 for played in figures["played"])


def test_the_same_seed_gives_the_same_figures() -> None:
    first, second = (run(TUNING_SEEDS[:1], no_plan, 30.0) for _ in range(2))
    assert first["played"] == second["played"]


def test_figures_are_of_mixes_that_nothing_was_tuned_on() -> None:
    assert not set(TUNING_SEEDS) & set(REPORTING_SEEDS)
