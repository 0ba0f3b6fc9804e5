"""Which comparison `surgekit bench escra` plays."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from experiments.escra import command
from experiments.escra.arms import ARMS
from experiments.escra.command import Options, plan_of


@pytest.fixture(autouse=True)
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "why_not", lambda: None)
    monkeypatch.setattr(command, "has_burst", lambda: True)


def test_all_arms_or_some_with_those_of_ours_they_are_compared_with() -> None:
    assert list(plan_of(Options()).arms) == list(ARMS)
    assert plan_of(Options(arms=["static_1"])).arms == ["static_1", "ours_1"]
    assert plan_of(Options(arms=["burst", "paper"], quick=True)).arms == ["burst", "ours_1_5", "paper"]


def test_a_kernel_without_burst_has_no_such_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "has_burst", lambda: False)
    assert set(ARMS) - set(plan_of(Options()).arms) == {"burst", "autopilot_burst"}


def test_other_seeds_traces_and_windows() -> None:
    plan = plan_of(Options(seeds=range(5, 7), trace=Path("sample"), profile_window_s=0.1))
    assert (list(plan.seeds), plan.data, plan.profile_window_s) == ([5, 6], Path("sample"), 0.1)
    assert plan.tag != plan_of(Options()).tag


def test_without_applications_only_the_node_is_measured() -> None:
    plan = plan_of(Options(rest_only=True))
    assert not list(plan.runs())
    assert plan.reaction_containers == 200


def test_what_cannot_be_played_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(typer.BadParameter, match="'ours_2' is not one of static_0_75"):
        plan_of(Options(arms=["ours_2"]))
    monkeypatch.setattr(command, "why_not", lambda: "root is needed to make cgroups")
    with pytest.raises(typer.BadParameter, match="containers cannot run here: root is needed"):
        plan_of(Options())
