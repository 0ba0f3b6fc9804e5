"""The bench in virtual time, on the extract, with its file of finished runs and its pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.pulsenet.arms import OURS
from experiments.pulsenet.figures import Summary, cost_ratio, slowdown_ratio
from experiments.pulsenet.pictures import draw_all
from experiments.pulsenet.simulated import Plan, run
from experiments.pulsenet.simulation import Span
from experiments.results.sections import section
from experiments.seeds import REPORTED, SWEEP, TUNING

PLAN = Plan(
    seeds=REPORTED[:2], sweep_seeds=SWEEP[:1], arms=(OURS, "asynchronous", "synchronous"),
    keepalives_s=(60.0,),
    thresholds=(50.0,), retentions_s=(60.0,), delays_s=(1.0,), starts_s=(0.01,), large=False,
    span=Span(30.0, 90.0),
)  # fmt: skip


def test_runs_that_are_kept_are_not_played_again_and_everything_is_shown(tmp_path: Path) -> None:
    said: list[str] = []
    kept = tmp_path / "kept.jsonl"
    found = run(PLAN, kept, said.append)
    assert run(PLAN, kept, said.append) == found
    assert said[-1].endswith(" 0 of them to be played")
    assert set(found["slowdown_ratio"]) == set(found["cost_ratio"]) == {"asynchronous", "synchronous"}
    for ratio in (*found["slowdown_ratio"].values(), *found["cost_ratio"].values()):
        assert 0 < ratio["low"] <= ratio["geomean"] <= ratio["high"]
    assert len(draw_all(found, tmp_path / "pictures")) == 5
    command = {
        "command": "surgekit bench pulsenet --simulated",
        "date": "2026-11-19",
        "cores": 2,
        "memory_gib": 8,
    }
    assert section(json.loads(json.dumps({"about": command} | found)))


def test_seeds_for_tuning_sweeps_and_figures_are_apart() -> None:
    assert not {*TUNING} & {*Plan().seeds, *Plan().sweep_seeds}
    assert not {*Plan().seeds} & {*Plan().sweep_seeds}


def test_ratios_are_those_of_two_seeds_and_functions_without_requests_do_not_count() -> None:
    def of(slowdowns: list[float], held: list[float]) -> Summary:
        return Summary(np.array(slowdowns), np.array(held), np.array([1.0, 1.0]), {})

    others = [of([4.0, np.nan], [6.0, 6.0]), of([16.0, 16.0], [6.0, 6.0])]
    own = [of([1.0, np.nan], [3.0, 3.0]), of([4.0, 1.0], [2.0, 2.0])]
    assert slowdown_ratio(others, own)["geomean"] == pytest.approx((4 * (4 * 16) ** 0.5) ** 0.5)
    assert cost_ratio(others, own)["geomean"] == pytest.approx(6**0.5)
