"""The emulation of image pulls: known times are found again, and errors are what they say."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.node_model.model import median_s
from experiments.node_model.pulls import CELLS, IMAGES, MIB, PullTime, emulated, pull_figures

TRUTH, CREATE_S = PullTime(0.2, 100 * MIB), 0.3


def a_round(truth: PullTime, create_s: float = CREATE_S) -> dict[str, Any]:
    """A round of a node that pulls as `truth` says."""
    played = {}
    for cell in CELLS:
        seen_s = sorted(emulated(cell, create_s, truth)[0])
        pulled_s = sorted(truth.of(IMAGES[name]) for name in cell if name)
        played[" + ".join(name or "no pull" for name in cell)] = {"seen_s": seen_s, "pulled_s": pulled_s}
    return played


def test_a_pulls_time_is_found_again_from_images_of_three_sizes() -> None:
    found = PullTime.fit({size: TRUTH.of(size) for size in (MIB, 32 * MIB, 128 * MIB)})
    assert (found.fixed_s, found.bytes_per_s) == pytest.approx((0.2, 100 * MIB))


def test_a_node_pulls_one_image_at_a_time_and_pods_share_a_pull() -> None:
    one, three, shared = (
        median_s(emulated(cell, CREATE_S, TRUTH))
        for cell in (("middle",), ("middle", "second", "third"), ("middle",) * 3)
    )
    pull_s = TRUTH.of(IMAGES["middle"])
    assert one > pull_s
    assert three == pytest.approx(3 * pull_s + CREATE_S, rel=0.3)
    assert three > shared + pull_s


def test_errors_are_of_the_held_out_rounds() -> None:
    """A node that then pulls at half the speed: what pulls much is emulated as nearly half as long."""
    same = pull_figures({"fitted 0": a_round(TRUTH), "held out 0": a_round(TRUTH)})
    assert same["pull_error_worst"] < 0.15, (
        "one round against the median of fifteen: the work of a pod varies"
    )
    assert (same["fixed_s"], same["mebibytes_per_s"]) == pytest.approx((0.2, 100), rel=0.01)
    slower = pull_figures({"fitted 0": a_round(TRUTH), "held out 0": a_round(PullTime(0.4, 50 * MIB))})
    assert slower["cells"]["large"]["error"] == pytest.approx(0.5, abs=0.1)
    assert slower["pull_error_mean"] > 0.25
    assert slower["cells"]["no pull"]["error"] < 0.15
