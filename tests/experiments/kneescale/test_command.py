"""Which comparison `surgekit bench kneescale` plays; and KneeScale as a scaler of the simulated one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.kneescale import command
from experiments.kneescale.command import Options, partial_of, plan_of, searched_knees, show, simulate
from experiments.kneescale.plan import ARMS, DYNAMIC, STATIONARY, Load
from experiments.kneescale.searched import scaler_of
from experiments.kneescale.simulated import play
from kwok.traffic.functions import FUNCTIONS


def test_the_whole_and_parts_of_it() -> None:
    whole = plan_of(Options())
    assert [(p.load, p.rounds, p.arms) for p in whole.parts] == [(STATIONARY, 3, ARMS), (DYNAMIC, 1, ARMS)]
    part = plan_of(Options(arms=["ours", "hpa70"], load="dynamic", rounds=2))
    assert [(p.load, p.rounds, p.arms) for p in part.parts] == [(DYNAMIC, 2, ("ours", "hpa70"))]
    quick = plan_of(Options(quick=True))
    assert (quick.at_once, [(p.load.name, p.rounds) for p in quick.parts]) == (
        5,
        [("stationary", 1), ("dynamic", 1)],
    )


def test_other_seeds_are_so_many_rounds() -> None:
    plan = plan_of(Options(arms=["ours"], load="dynamic", seeds=range(5, 9)))
    assert [seed for _, seed, _ in plan.rounds()] == [5, 6, 7, 8]
    quick = plan_of(Options(quick=True, seeds=range(5, 9)))
    assert [seed for _, seed, _ in quick.rounds()] == [5, 5]


def test_bursts_are_played_only_when_asked_for() -> None:
    (part,) = plan_of(Options(arms=["ours"], load="bursts", seeds=range(5, 7))).parts
    assert part.load.name == "bursts"
    names = list(FUNCTIONS)
    one, other = (part.load.clients(names, None, seed) for seed in (5, 6))
    assert one == part.load.clients(names, None, 5)
    assert len({trace.clients for played in (one, other) for trace in played.values()}) == 2 * len(names)


def test_the_quick_one_takes_arms_and_load_too() -> None:
    one = plan_of(Options(quick=True, arms=["ours", "random"], load="dynamic"))
    (part,) = one.parts
    assert (part.load.name, part.rounds, part.arms) == ("dynamic", 1, ("ours", "random"))
    assert part.load.duration_s < DYNAMIC.duration_s
    both = plan_of(Options(quick=True, arms=["ours"]))
    assert [p.arms for p in both.parts] == [("ours",), ("ours",)]


def test_results_so_far_lie_beside_the_figures() -> None:
    assert partial_of(Path("out/kneescale.json")) == Path("out/kneescale.partial.jsonl")
    assert partial_of(Path("-")) is None
    assert partial_of(None) is None


@pytest.mark.parametrize("arm", ["ours", "paper", "hill_climbing", "random"])
def test_searches_keep_to_the_budget(arm: str) -> None:
    load = Load("stationary", 600.0, 300)
    function = FUNCTIONS["model-serving-rnn"]  # with errors at one replica, so that every search begins
    trace = load.clients([function.name], None, 1)[function.name]
    track = play(function, trace, load, scaler_of(arm, function, load), seed=1)
    assert sum(track.replicas) <= load.budget
    assert max(track.replicas) > 5
    assert len(track.replicas) == load.intervals


def test_simulated_figures_have_the_keys_of_the_live_ones(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan = plan_of(Options(arms=["ours", "hpa90"], load="stationary", rounds=1, time_factor=1.0))
    found = simulate(plan, False, lambda _: None)
    gain = found["gain_over"]["stationary"]["hpa90"]
    assert {"best", "mean"} <= gain.keys()
    assert gain["mean"] > 0  # at 90 % three replicas serve twenty clients
    assert found["samples_max"] <= 10
    assert all(1 <= knee <= 114 for knees in found["knees_found"].values() for knee in knees)
    assert any(found["knees_found"].values())
    file = tmp_path / "f.json"
    show(found, file)
    assert json.loads(file.read_text())["gain_over"]["stationary"]["hpa90"] == gain
    assert "hpa90" in capsys.readouterr().out


def test_how_near_searches_come_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "true_knees", lambda functions, clients: {f.name: 40 for f in functions})
    nothing: dict[str, object] = {"gain_over": {}, "samples_mean": 5, "samples_max": 7}
    found = nothing | {"knees_found": {"matmul": [37, 41], "float-operation": []}}
    near = searched_knees(found)
    assert {name: (one["true"], one["off_by_mean"]) for name, one in near.items()} == {"matmul": (40, 2)}
    show(found | {"searched_knees": near}, None)
    said = capsys.readouterr().out
    assert "matmul" in said
    assert "37, 41" in said
