"""All arms live, on a few nodes and for a few seconds: each meets its targets, by its own means."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.combofunc.arms import AUTOPILOT, LIVE_ARMS, NO_INPLACE, RANDOM_FIT, STOCK, Choice
from experiments.combofunc.bench import Plan, run
from experiments.combofunc.workload import FUNCTIONS, Workload
from kwok.errors import TrafficError

CHOICES = {
    arm: dict.fromkeys(FUNCTIONS, choice)
    for arm, choice in (
        (STOCK, Choice(2, keep_s=4.0)),
        (RANDOM_FIT, Choice(1)),
        (AUTOPILOT, Choice(3, True)),
        (NO_INPLACE, Choice(5)),
    )
}


def test_an_arm_that_there_is_not() -> None:
    with pytest.raises(TrafficError, match="arm: 'best' is not one of ours, stock"):
        Plan.quick([1], ("ours", "best"))


@pytest.mark.lab
@pytest.mark.long
def test_every_arm_meets_its_targets_and_a_second_run_plays_nothing(tmp_path: Path, binaries: object) -> None:
    workload = replace(
        Workload(), nodes=4, minutes=2, minute_s=20.0, peak_cores=4.0, tau_create_s=0.2, tau_resize_s=0.1
    )
    plan, partial, said = Plan([1], workload), tmp_path / "played.jsonl", list[str]()
    found = run(plan, CHOICES, partial, said.append)
    assert set(found["time_ratio"]) == set(LIVE_ARMS) - {"ours"}
    for arm, (outcome,) in found["rounds"].items():
        for name, track in outcome["tracks"].items():
            assert track["cut_short"] == 0, (arm, name)
            assert track["ready"][-1] >= track["target"][-1] > 0, (arm, name)
            assert track["core_s"] > 0
            assert len(track["scaling_s"]) == found["arms"]["ours"][name]["rises"]
    played = len(said)
    assert run(plan, CHOICES, partial, said.append) == found
    assert len(said) == played
