"""The fit of the node model: known physics are found again, and errors are what they say."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from experiments.node_model.bench import samples, summary
from experiments.node_model.figures import report
from experiments.node_model.model import Emulation, fit, fit_paper, median_s
from experiments.node_model.plan import CREATE, CREATIONS, RESIZE, RESIZES, Cell, Plan, cells_of
from experiments.node_model.scale_out import WAVES, predict
from kwok.physics import Physics

TRUTH = Emulation(0.4, 0.15, Physics(1.5, 1.3, 0.35, 0.2, 0.4))


def emulated_s(cell: Cell, emulation: Emulation) -> float:
    return median_s(emulation.play(cell))


def measured(
    truth: Emulation, noise: float = 0.0, rounds: int = 1, seed: int = 0
) -> dict[Cell, list[list[float]]]:
    """Rounds of a node that follows `truth`; each time is off by a random factor."""
    drawn = random.Random(seed)
    return {
        cell: [[emulated_s(cell, truth) * drawn.lognormvariate(0, noise)] * cell.pods for _ in range(rounds)]
        for cell in (*CREATIONS, *RESIZES)
    }


@pytest.mark.parametrize(
    "truth",
    [
        TRUTH,
        Emulation(2.0, 0.1, Physics(1.0, 1.0, 1.0)),  # the paper's creations
        Emulation(0.3, 0.3, Physics(3.0, 6.0, 0.2, 0.5, 0.0)),
    ],
)
def test_known_physics_are_found_again(truth: Emulation) -> None:
    found = fit(measured(truth))
    for cell in (*CREATIONS, *RESIZES):
        assert emulated_s(cell, found) == pytest.approx(emulated_s(cell, truth), rel=0.01)
    assert found.tau_create_s == pytest.approx(truth.tau_create_s, rel=0.01)
    assert found.physics.extra_container == pytest.approx(truth.physics.extra_container, rel=0.05)


def test_the_spread_is_found_from_the_first_pod() -> None:
    truth = replace(TRUTH, physics=replace(TRUTH.physics, spread=0.15))
    rounds = {cell: truth.play(cell) for cell in (*CREATIONS, *RESIZES)}
    figures = report(rounds, rounds)
    assert figures["spread"] == pytest.approx(0.15, abs=0.02)
    assert figures["first_pod_error_mean"] < 0.05
    assert figures["create_error_worst"] < 0.1
    assert figures["cells"]["create 16 x 1"]["first_over_last"] < 0.9


def test_the_error_on_other_rounds_is_zero_without_noise() -> None:
    figures = report(measured(TRUTH), measured(TRUTH))
    for key in ("create_error_mean", "create_error_worst", "resize_error_mean", "containers_error_mean"):
        assert figures[key] == pytest.approx(0.0, abs=0.005)
        assert figures[f"repeated_{key}"] == 0.0
    assert figures["paper_create_error_worst"] > 0.2
    assert 0.02 < figures["no_latency_create_error_worst"] < figures["paper_create_error_worst"]


def test_noise_is_smaller_in_medians() -> None:
    figures = report(measured(TRUTH, 0.1, 15, 1), measured(TRUTH, 0.1, 15, 2))
    assert figures["create_error_mean"] < 0.05
    assert figures["create_error_mean"] < figures["repeated_create_error_worst"]
    cell = figures["cells"]["create 8 x 2"]
    assert cell["lower_quartile_s"] < cell["measured_s"] < cell["upper_quartile_s"]


def test_an_error_is_of_the_held_out_median() -> None:
    """A node that became a fourth slower after the fit: every emulated time is a fifth short."""
    slower = Emulation(TRUTH.tau_create_s * 1.25, TRUTH.tau_resize_s * 1.25, TRUTH.physics)
    figures = report(measured(TRUTH), measured(slower))
    assert figures["create_error_mean"] == pytest.approx(0.2, abs=0.005)
    assert figures["resize_error_mean"] == pytest.approx(0.2, abs=0.005)


def test_the_papers_form_is_k_times_tau() -> None:
    paper = fit_paper(measured(Emulation(0.5, 0.1, Physics())))
    assert (paper.tau_create_s, paper.tau_resize_s) == pytest.approx((0.5, 0.1))
    assert emulated_s(Cell(CREATE, 8, 2), paper) == pytest.approx(8.0)
    assert emulated_s(Cell(RESIZE, 8), paper) == pytest.approx(0.1)


def test_each_round_plays_every_cell_in_an_order_of_its_own() -> None:
    rounds = Plan(3, 2).rounds
    assert rounds == ["fitted 0", "held out 0", "fitted 1", "held out 1", "fitted 2"]
    orders = [cells_of(name) for name in rounds]
    assert orders[0] == cells_of(rounds[0])
    assert orders[0] != orders[1]
    assert all(set(order) == {*CREATIONS, *RESIZES} for order in orders)


def test_a_scale_out_comes_in_waves() -> None:
    alone_s = predict(Emulation(0.001, 1.0, Physics()).scenario())
    assert [round(at_s) for at_s in alone_s] == [0] * 4 + [1] * 5 + [2] * 3
    ready_s = predict(TRUTH.scenario())
    assert len(ready_s) == WAVES[-1][1]
    assert ready_s == sorted(ready_s)
    assert ready_s[-1] > WAVES[-1][0] + TRUTH.tau_create_s


def test_a_summary_keeps_fitted_and_held_out_rounds_apart() -> None:
    def a_round(tau_s: float) -> dict[str, object]:
        truth = Emulation(tau_s, tau_s, TRUTH.physics)
        cells: dict[str, object] = {"load average": tau_s}
        for cell in (*CREATIONS, *RESIZES):
            done_s = [emulated_s(cell, truth)] * cell.pods
            created = {"started_s": [s - 0.03 for s in done_s], "gone_s": [1.0] * cell.pods}
            read: dict[str, object] = {"probe": {"create_s": 1.8, "resize_s": 1.2}}
            cells[cell.name] = [{"seen_s": done_s} | read | (created if cell.what == CREATE else {})]
        return cells | {"scale-out": predict(truth.scenario())}

    emulated = {"scale-out": [predict(Emulation(1.1, 1.0, TRUTH.physics).scenario())]}
    figures = summary({"fitted 0": a_round(1.0), "held out 0": a_round(2.0), "emulated": emulated})
    assert figures["create_error_mean"] == pytest.approx(0.5, abs=0.005)
    assert figures["seen_after_started_s"] == pytest.approx(0.03)
    assert (figures["load_average_lowest"], figures["load_average_highest"]) == (1.0, 2.0)
    assert figures["cells"]["delete 4 x 2"]["measured_s"] == 1.0
    assert "error" not in figures["cells"]["delete 4 x 2"]
    # One pod alone takes 1.5 s in the median of the two rounds, and starts 0.03 s sooner.
    assert figures["probe"]["create_single_error_mean"] == pytest.approx(0.2)
    assert figures["probe"]["create_several_error_mean"] == pytest.approx(0.2)
    assert figures["probe"]["create_single_started_error_mean"] == pytest.approx(1.8 / 1.47 - 1, abs=1e-4)
    assert figures["probe"]["resize_error_mean"] == pytest.approx(0.2)
    # The real scale-out was held out: its node took twice as long as the fitted one.
    assert figures["scale_out"]["predicted_s"] < figures["scale_out"]["emulated_s"]
    assert figures["scale_out"]["predicted_error"] > figures["scale_out"]["emulated_error"] > 0.3
    assert len(samples([a_round(1.0), a_round(1.0)])[CREATIONS[0]]) == 2
