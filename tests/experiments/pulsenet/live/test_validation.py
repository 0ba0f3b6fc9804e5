"""Live figures beside the simulation's."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.pulsenet.live.plan import ARMS, DEFAULTS
from experiments.pulsenet.live.validation import COMPARED, beside
from experiments.pulsenet.live.workload import choose
from experiments.pulsenet.trace import MINUTES, Function


@pytest.mark.parametrize("arm", ARMS)
def test_figures_that_are_the_simulations_own_have_no_error(arm: str) -> None:
    rng = np.random.default_rng(5)
    functions = [
        Function(f"f{i}", rng.poisson(6, MINUTES), np.linspace(0.01, 2.0, 7), np.full(8, 1e8))
        for i in range(3)
    ]
    workload = choose(functions, 3, 30.0, 60.0, seed=1)
    nothing = dict.fromkeys(COMPARED, 1.0) | {"emergency": {}, "machine_ms": {"50": 0.0}}
    first = beside(nothing, workload, DEFAULTS[arm], 30.0, 60.0)
    live = {key: first[key]["simulated"] for key in COMPARED} | {"emergency": {}, "machine_ms": {"50": 0.0}}
    for figure in beside(live, workload, DEFAULTS[arm], 30.0, 60.0).values():
        assert figure["error"] in (0.0, None)
        assert figure["error_with_measured_delays"] in (0.0, None)
        assert figure["simulated"] >= 0.0


def test_measured_delays_make_the_simulation_slower() -> None:
    functions = [Function("f", np.full(MINUTES, 3), np.full(7, 0.1), np.full(8, 1e8))]
    workload = choose(functions, 1, 30.0, 60.0, seed=1)
    live = {
        "slowdown": 2.0, "cost": 2.0, "regular_share": 1.0, "creations": 1, "creation_s": {"p50": 2.0},
        "emergency": {"place_mean_ms": 100.0}, "machine_ms": {"0": 2.0, "100": 50.0},
    }  # fmt: skip
    found = beside(live, workload, DEFAULTS["pulsenet"], 30.0, 60.0)["slowdown"]
    assert found["with_measured_delays"] > found["simulated"]
    assert found["error"] == pytest.approx(found["simulated"] / 2.0 - 1.0, abs=1e-3)
