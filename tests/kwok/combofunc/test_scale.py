"""What the scale test counts as carried out, and all of it on a lab of a few functions."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from kwok.binaries import Binaries
from kwok.combofunc import scale
from kwok.combofunc.scale import Plan
from kwok.combofunc.scale_record import Record, settled
from kwok.process_usage import usage
from surgekit.cli import app

Json = dict[str, Any]
SMALL = Plan(functions=4, nodes=8, pods_each=3, changes_per_minute=60, minutes=0.2)


def combofunc(
    target: int, generation: int, observed: int, ready: int, planned: int = 8, reason: str = "Ready"
) -> Json:
    """A function `f`; its last plan was for a target of `planned`, at the generation `observed`."""
    condition = {"type": "Ready", "reason": reason, "status": "True", "observedGeneration": observed}
    return {
        "metadata": {"name": "f", "generation": generation},
        "spec": {"targetConcurrency": target},
        "status": {
            "observedGeneration": observed,
            "plan": {"target": planned},
            "plannedConcurrency": planned,
            "readyConcurrency": ready,
            "conditions": [condition],
        },
    }


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (combofunc(8, 1, 1, ready=8), True),
        (combofunc(8, 1, 1, ready=8, reason="Rolling"), False),  # pods drain
        (combofunc(8, 1, 1, ready=7, reason="Progressing"), False),
        (combofunc(8, 1, 1, ready=9), False),  # more than planned
        (combofunc(8, 2, 1, ready=8), False),  # of an earlier spec
        (combofunc(9, 1, 1, ready=9), False),  # no plan for this target
        ({"metadata": {"name": "f", "generation": 1}, "spec": {"targetConcurrency": 8}}, False),
    ],
)
def test_settled(obj: Json, expected: bool) -> None:
    assert settled(obj) is expected


def test_a_change_is_planned_then_serves_then_is_settled() -> None:
    record = Record()
    record.aim("f", 8, 10.0)
    assert [c.function for c in record.waiting()] == ["f"]
    record.apply("MODIFIED", combofunc(8, 1, 1, ready=2, reason="Progressing"), 11.0)
    record.apply("MODIFIED", combofunc(8, 1, 1, ready=10, reason="Rolling"), 12.0)
    record.apply("MODIFIED", combofunc(8, 1, 1, ready=8), 13.0)
    record.apply("MODIFIED", combofunc(8, 1, 1, ready=8), 14.0)
    (change,) = record.changes
    assert (change.planned_s, change.serving_s, change.settled_s) == (11.0, 12.0, 13.0)
    assert not change.overtaken
    assert record.waiting() == []


def test_news_of_the_change_before_are_not_taken_for_the_next() -> None:
    record = Record()
    record.aim("f", 8, 10.0)
    record.aim("f", 6, 11.0)
    record.apply("MODIFIED", combofunc(8, 1, 1, ready=8), 12.0)
    first, second = record.changes
    assert first.overtaken
    assert second.planned_s is None
    record.apply("MODIFIED", combofunc(6, 2, 2, ready=6, planned=6), 13.0)
    assert second.settled_s == 13.0
    record.aim("f", 8, 14.0)
    assert not second.overtaken


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(2, 30), st.integers(0, 5))
def test_every_change_is_one_and_pods_stay_about_as_many(functions: int, pods: int, seed: int) -> None:
    plan = Plan(functions=functions, pods_each=pods, minutes=1.0, seed=seed)
    targets = {i: plan.first_target(i) for i in range(functions)}
    changes = plan.changes()
    assert len(changes) == 100
    assert changes == replace(plan).changes()
    for number, (at_s, index, target) in enumerate(changes):
        assert at_s == pytest.approx(number * 0.6)
        assert target != targets[index]
        first = plan.first_target(index)
        assert 0.6 * first - 0.5 <= target <= 1.4 * first + 0.5
        targets[index] = target


def test_usage_of_a_process_and_what_it_started() -> None:
    busy = "import os, time; os.fork(); s = time.process_time()\nwhile time.process_time() < s + .1: pass\n"
    child = subprocess.Popen(
        [sys.executable, "-c", busy + "print('x', flush=True); os.read(0, 1)"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    with child:
        assert child.stdout
        assert [child.stdout.readline() for _ in range(2)] == [b"x\n"] * 2
        found = usage(child.pid)
        child.communicate(b"12")
    assert found.threads == 2
    assert found.files >= 6
    assert found.memory_mb > 5
    assert found.cpu_s >= 0.15


@pytest.mark.lab
def test_every_change_is_carried_out_and_nothing_stays(
    binaries: Binaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "figures.json"
    monkeypatch.setattr(scale.Plan, "quick", classmethod(lambda cls: SMALL))
    result = CliRunner().invoke(app, ["bench", "combofunc-scale", "--quick", "--json", str(file)])
    figures = json.loads(file.read_text())
    assert (result.exit_code, figures["failures"], figures["leaked"]) == (0, [], 0)
    assert figures["carried_out"] + figures["overtaken"] == figures["changes"] == 12
    assert figures["carried_out"] >= 4
    assert 0 < figures["planned_lag_p50_s"] <= figures["lag_p50_s"] <= figures["lag_max_s"]
    assert figures["pods"] >= 4
    assert figures["controller_cpu_s"] > 0
    assert figures["memory_mb_end"] > 20
