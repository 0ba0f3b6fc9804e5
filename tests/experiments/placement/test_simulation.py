"""The scale-out in virtual time: what can be worked out, and what must hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiments.commands import app
from experiments.placement.curves import Axes, run
from experiments.placement.simulation import Policy, simulate
from experiments.placement.workload import Workload
from experiments.plots import placement_curves
from kwok.physics import MEASURED, NodeSpeed
from kwok.scenario import SPREAD, Scenario, Walk

SMALL = replace(Workload(), nodes=4, replicas=40, warm_up_s=20.0, resident_share=(0.2, 0.2))
NAMES = [f"node-{i}" for i in range(SMALL.nodes)]


def constant(*taus_s: float) -> Scenario:
    speeds = {name: NodeSpeed(tau_s, 0.1) for name, tau_s in zip(NAMES, taus_s, strict=True)}
    return Scenario(1, speeds, NodeSpeed(1.0, 0.1), physics=replace(MEASURED, spread=0.0))


def test_pods_go_where_they_are_created_fastest() -> None:
    uneven = constant(0.5, 1.0, 1.0, 1.5)
    played = {policy: simulate(SMALL, uneven, 1, policy).seconds for policy in Policy}
    assert played[Policy.OURS] < 0.8 * played[Policy.STOCK]
    assert played[Policy.KNOWN] <= played[Policy.OURS]
    assert played[Policy.COUNTED] > 1.2 * played[Policy.KNOWN]


def test_on_equal_nodes_nobody_is_far_ahead() -> None:
    played = {policy: simulate(SMALL, constant(1.0, 1.0, 1.0, 1.0), 1, policy).seconds for policy in Policy}
    assert max(played.values()) < 1.25 * min(played.values())


def test_what_the_probe_knows_is_recent_and_right() -> None:
    found = simulate(SMALL, constant(0.5, 1.0, 1.0, 1.5), 1, Policy.OURS)
    assert found.age_s < 10
    assert found.believed_error < 0.1
    assert len(found.ready_s) == SMALL.replicas
    assert found.ready_s[-1] == found.seconds


def test_the_same_seed_gives_the_same() -> None:
    scenario = Scenario.draw(3, NAMES, tau_create_s=1.0)
    assert simulate(SMALL, scenario, 3, Policy.OURS) == simulate(SMALL, scenario, 3, Policy.OURS)


def test_the_default_walk_is_the_one_of_its_spread() -> None:
    walk = Walk.of_spread(SPREAD, Walk.step_s)
    assert (walk.step_s, walk.reversion, walk.max_ratio) == (Walk.step_s, Walk.reversion, Walk.max_ratio)
    assert walk.volatility == pytest.approx(Walk.volatility, rel=0.01)
    assert Walk.of_spread(0.0, 5.0).max_ratio == 1.0


def test_axes_meet_at_the_default_once() -> None:
    points = list(Axes().points())
    assert len(points) == len(set(points)) == 12
    assert (60.0, SPREAD) in points


def test_a_point_has_its_intervals() -> None:
    (point,) = run(Axes((60.0,), (), seeds=[1, 2]), lambda _: None)["points"]
    ours = point["speedup"][Policy.OURS]
    assert ours["low"] <= ours["geomean"] <= ours["high"]
    assert point["probe_age_s"]["mean"] > 0


def test_both_axes_are_drawn(tmp_path: Path) -> None:
    ratio = {"geomean": 1.2, "low": 1.1, "high": 1.3}
    points = [
        {"step_s": step_s, "spread": spread, "probe_age_s": {"mean": 4.0}}
        | {"speedup": dict.fromkeys(("ours", "known", "counted"), ratio)}
        for step_s, spread in Axes().points()
    ]
    picture = tmp_path / "curves.png"
    placement_curves(points, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("option", [("--seeds", "9-5"), ("--spread", "-1")])
def test_wrong_options_are_refused(option: tuple[str, str]) -> None:
    assert CliRunner().invoke(app, ["placement", "--simulated", *option]).exit_code == 2
