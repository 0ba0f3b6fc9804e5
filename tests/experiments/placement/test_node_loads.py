"""What is read from a trace of loads, on loads that are known."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from experiments.placement.node_loads import Loads, read, walks, wandering
from kwok.scenario import Scenario, Walk


def drawn(step_s: float, machines: int = 6) -> Loads:
    """Loads that wander as a walk's speeds do, seen now and then as in the trace."""
    draw = random.Random(1)
    names = [f"m_{i}" for i in range(machines)]
    speeds = Scenario.draw(77, names, tau_create_s=1.0, walk=Walk.of_spread(0.34, step_s))
    loads: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for name in names:
        at_s = 0.0
        while at_s < 15_000:
            loads[name].append((at_s, 100 - 50 / speeds.tau_create_s(name, at_s)))
            at_s += 10 * draw.randint(1, 15)
    return loads


@pytest.mark.parametrize("step_s", [10.0, 30.0, 120.0])
def test_a_walk_is_known_by_its_memory(step_s: float) -> None:
    loads = drawn(step_s)
    found, likely = wandering(loads), walks(loads, [10.0, 30.0, 120.0])
    assert min(likely, key=lambda step: abs(math.log(likely[step].memory_s / found.memory_s))) == step_s
    assert found.spread == pytest.approx(likely[step_s].spread, rel=0.15)
    assert found.correlation[0] > found.correlation[3] > found.correlation[5]


def test_machines_that_stay_apart_are_not_taken_for_change() -> None:
    draw = random.Random(2)
    loads = {f"m_{used}": [(10.0 * i, used + draw.uniform(-1, 1)) for i in range(400)] for used in (10, 80)}
    found = wandering(loads)
    assert found.between == pytest.approx(math.log(90 / 20) / 2, abs=0.01)
    assert found.spread < 0.05


def test_invalid_samples_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "machine_usage.csv"
    file.write_text("m_1,10,41,92,,,43.04,33.08,5\nm_1,20,-1,92,,,,,\nm_1,30,101,1,,,,,\nm_2,10,,,,,,,\n")
    assert read(file) == {"m_1": [(10.0, 41.0)]}
