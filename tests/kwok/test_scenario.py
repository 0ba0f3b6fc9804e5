"""Scenarios: the same speeds for the same seed, within the stated bounds, and clear errors."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwok.errors import ScenarioError
from kwok.physics import MEASURED, NodeSpeed
from kwok.scenario import Image, Scenario, Walk, tagged

NODES = [f"node-{i}" for i in range(16)]


@given(seed=st.integers(0, 10_000), at_s=st.floats(0, 600))
def test_fastest_and_slowest_stay_within_max_ratio(seed: int, at_s: float) -> None:
    scenario = Scenario.draw(seed, NODES)
    taus = [scenario.tau_create_s(node, at_s) for node in NODES]
    assert max(taus) / min(taus) <= 3.0 * (1 + 1e-9)


def test_speeds_are_volatile_but_long_term_averages_are_alike() -> None:
    """ComboFunc fig. 3a and 3b."""
    scenario = Scenario.draw(3, NODES)
    series = [[scenario.tau_create_s(node, t) for t in range(0, 40 * 36_000, 60)] for node in NODES]
    means = [statistics.fmean(s) for s in series]
    assert max(means) / min(means) < 1.15
    assert all(statistics.stdev(s) / m > 0.2 for s, m in zip(series, means, strict=True))


def test_a_seed_draws_the_same_speeds_in_every_process() -> None:
    code = "from kwok.scenario import Scenario; print(Scenario.draw(7, ['a']).tau_create_s('a', 400))"
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert said == {f"{Scenario.draw(7, ['a']).tau_create_s('a', 400)}\n"}


def test_nodes_and_seeds_differ() -> None:
    drawn = {Scenario.draw(seed, []).tau_create_s(node, 0) for seed in (1, 2) for node in ("a", "b")}
    assert len(drawn) == 4


@given(at_s=st.floats(0, 1000), seed=st.integers(0, 100))
def test_tau_is_constant_up_to_the_next_change(at_s: float, seed: int) -> None:
    scenario = Scenario.draw(seed, ["a"])
    change_s = scenario.next_change_s("a", at_s)
    assert change_s > at_s
    before_s = math.nextafter(change_s, 0)
    assert scenario.tau_create_s("a", before_s) == scenario.tau_create_s("a", at_s)


def test_stated_changes_replace_the_walk() -> None:
    speed = NodeSpeed(0.5, 0.1, changes=((10.0, 1.0), (20.0, 0.25)))
    scenario = Scenario(1, {"a": speed}, NodeSpeed(0.5, 0.1), Walk())
    assert [scenario.tau_create_s("a", t) for t in (0, 9.9, 10, 19, 20, 99)] == [0.5, 0.5, 1, 1, 0.25, 0.25]
    assert [scenario.next_change_s("a", t) for t in (0, 10, 20)] == [10, 20, math.inf]


def test_a_scenario_survives_its_file(tmp_path: Path) -> None:
    images = {"nginx": Image(2.0, 10)}
    scenario = Scenario.draw(5, ["a", "b"], images=images, physics=MEASURED).started(1e9)
    file = tmp_path / "scenario.json"
    file.write_text(scenario.to_json())
    read = Scenario.load(file)
    assert read == scenario
    assert read.tau_create_s("b", 123) == scenario.tau_create_s("b", 123)
    assert read.image("nginx:latest").pull_s == 2.0


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("nginx", "nginx:latest"),
        ("host:5000/nginx", "host:5000/nginx:latest"),
        ("nginx:1.2", "nginx:1.2"),
        ("nginx@sha256:ab", "nginx@sha256:ab"),
    ],
)
def test_images_carry_a_tag(image: str, name: str) -> None:
    assert tagged(image) == name


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": "x"}, "seed: 'x'"),
        ({"physics": {"creation_latency": 1.5}}, "physics.creation_latency: 1.5"),
        ({"walk": {"max_ratio": 0.5}}, "walk.max_ratio: 0.5"),
        ({"walk": {"volatility": math.nan}}, "walk.volatility: nan"),
        ({"walk": {"drift": 1}}, "unknown key 'drift'"),
        ({"nodes": {"a": {"tau_create_s": -1, "tau_resize_s": 0}}}, "tau_create_s: -1"),
        ({"nodes": {"a": {"tau_create_s": 1}}}, "nodes.a"),
        ({"nodes": ["a"]}, "nodes: ['a']"),
        ({"other_nodes": {"tau_create_s": 1, "tau_resize_s": 0, "changes": [[5, 1], [1, 1]]}}, "changes"),
        ({"images": {"x": {"pull_s": "2s"}}}, "pull_s: '2s'"),
        ({"colour": 1}, "unknown key 'colour'"),
    ],
)
def test_errors_name_key_and_value(change: dict[str, Any], named: str) -> None:
    content = json.loads(Scenario.draw(1, ["a"]).to_json()) | change
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(content)
    assert named in str(caught.value)
