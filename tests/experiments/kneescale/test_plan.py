"""What is played, in which batches, and what a run that was cut off leaves for the next."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.kneescale.plan import (
    ARMS,
    DYNAMIC,
    STATIONARY,
    Batch,
    Part,
    Plan,
    add_played,
    read_played,
)
from experiments.seeds import REPORTED
from kwok.errors import TrafficError


def test_all_arms_of_all_rounds_in_batches() -> None:
    plan = Plan.of({STATIONARY: 2, DYNAMIC: 1}, ARMS[:4], 3, 4.0)
    assert plan.missing({}) == [
        Batch(STATIONARY, REPORTED[0], ARMS[:3]),
        Batch(STATIONARY, REPORTED[0], ARMS[3:4]),
        Batch(STATIONARY, REPORTED[1], ARMS[:3]),
        Batch(STATIONARY, REPORTED[1], ARMS[3:4]),
        Batch(DYNAMIC, REPORTED[0], ARMS[:3]),
        Batch(DYNAMIC, REPORTED[0], ARMS[3:4]),
    ]
    assert plan.minutes == pytest.approx((4 * 15 + 2 * 120) / 4)


def test_what_was_played_is_not_played_again_whatever_the_batches_were() -> None:
    plan = Plan.of({STATIONARY: 1}, ARMS[:4], 2, 4.0)
    name = plan.round_name(STATIONARY, REPORTED[0])
    assert plan.missing({name: {ARMS[1]: {}}}) == [
        Batch(STATIONARY, REPORTED[0], (ARMS[0], ARMS[2])),
        Batch(STATIONARY, REPORTED[0], (ARMS[3],)),
    ]


def test_other_times_budgets_and_traces_are_other_results() -> None:
    names = {
        Plan.of({}, ARMS, 3, 4.0).round_name(DYNAMIC, 0),
        Plan.of({}, ARMS, 3, 4.0).round_name(DYNAMIC, 1),
        Plan.of({}, ARMS, 3, 1.0).round_name(DYNAMIC, 0),
        Plan.of({}, ARMS, 3, 4.0).round_name(DYNAMIC.first(0.25), 0),
        Plan.of({}, ARMS, 3, 4.0, Path("azure")).round_name(DYNAMIC, 0),
    }
    assert len(names) == 5


def test_quick_is_within_twenty_minutes_and_the_whole_within_150() -> None:
    quick = Plan.quick(4.0)
    assert quick.minutes <= 15.0  # five are for bringing the lab up, and for deploying between batches
    assert {part.load.budget for part in quick.parts} == {1000, 1500}
    assert Plan.of({STATIONARY: 3, DYNAMIC: 1}, ARMS, 4, 4.0).minutes <= 130


def test_an_arm_nobody_knows() -> None:
    with pytest.raises(TrafficError, match="arm: 'hpa50' is not one of ours, paper"):
        Plan.of({STATIONARY: 1}, ["ours", "hpa50"], 3, 4.0)


def test_a_round_needs_a_seed() -> None:
    with pytest.raises(TrafficError, match="seeds: 2 for 3 rounds"):
        Plan((Part(STATIONARY, 3, ("ours",)),), 1, 4.0, seeds=[1, 2])


def test_results_add_up_over_runs(tmp_path: Path) -> None:
    file = tmp_path / "there" / "f.partial.jsonl"
    assert read_played(None) == read_played(file) == {}
    add_played(None, "a", {"ours": {}})
    add_played(file, "a", {"ours": {"f": {}}})
    add_played(file, "a", {"paper": {}})
    add_played(file, "b", {"ours": {}})
    assert read_played(file) == {"a": {"ours": {"f": {}}, "paper": {}}, "b": {"ours": {}}}
    assert [f.name for f in file.parent.iterdir()] == [file.name]


def test_a_file_that_is_no_record_of_a_run(tmp_path: Path) -> None:
    file = tmp_path / "f.jsonl"
    file.write_text("no json\n" + json.dumps({"a": {}}) + "\n")
    with pytest.raises(TrafficError, match=r"f\.jsonl:1: not what a run wrote"):
        read_played(file)
