"""Cumulative score under a budget, against the other ways to scale, in the model of closed_loop.py."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.kneescale.closed_loop import (
    Function,
    Scaler,
    dynamic_clients,
    foreknowing,
    hpa,
    kneescale,
    openfaas,
    run,
)
from experiments.kneescale.plan import OURS
from experiments.kneescale.searches import SEARCHES

RUNS = 3


@pytest.mark.parametrize(("capacity", "dynamic"), [(114, False), (76, False), (114, True), (76, True)])
def test_ours_is_ahead_of_every_other_way_on_the_mean(capacity: int, dynamic: bool) -> None:
    budget = 6000 if dynamic else 1000
    scores: dict[str, list[float]] = {}
    for seed in range(RUNS):
        clients = dynamic_clients(240, seed) if dynamic else [20] * 30
        ways: dict[str, tuple[Scaler, int]] = {
            arm: (kneescale(search, capacity, budget, len(clients)), 1) for arm, search in SEARCHES.items()
        }
        ways |= {f"hpa{target}": (hpa(target / 100), 1) for target in (30, 60, 70, 90)}
        ways["openfaas"] = (openfaas(), 10)
        for way, (scaler, first) in ways.items():
            outcome = run(scaler, clients, Function(capacity), budget, seed, first=first)
            assert outcome.used <= budget
            scores.setdefault(way, []).append(outcome.score)
        bound = run(foreknowing(clients, budget, capacity), clients, Function(capacity), budget, seed)
        assert scores[OURS][-1] >= 0.85 * bound.score
    ours = np.mean(scores.pop(OURS))
    assert {way for way, others in scores.items() if np.mean(others) >= ours} == set()
