"""What the scale test counts as carried out, and all of it on a lab of a few functions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from experiments.combofunc import scale
from experiments.combofunc.scale import Plan
from experiments.combofunc.scale_figures import Found, figures
from experiments.combofunc.scale_record import Change, Record, settled
from experiments.process_usage import Usage
from kwok.binaries import Binaries
from surgekit.cli import app

Json = dict[str, Any]
SMALL = Plan(functions=4, nodes=8, pods_each=3, changes_per_minute=120, minutes=0.1, keep_warm_s=2.0)


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


def found(**other: Any) -> Found:
    """One function of one pod, one change; all as it should be but what `other` says."""
    function = combofunc(8, 1, 1, ready=8)
    function["metadata"]["uid"] = "u"
    usage = Usage(memory_mb=100.0, threads=5, files=30, cpu_s=1.0)
    change = Change("f", 8, 1, at_s=10.0, planned_s=10.1, serving_s=10.5, settled_s=12.0)
    whole: Json = {"changes": [change], "functions": [function], "pods": [a_pod()], "left": 0}
    return Found(**(whole | {"begin": usage, "end": usage} | other))


def a_pod(owner: str = "u", concurrency: str = "8", ready: str = "True", **spec: Any) -> Json:
    return {
        "metadata": {
            "labels": {"surgekit.dev/combofunc": "f", "surgekit.dev/serving": "true"},
            "annotations": {"surgekit.dev/concurrency": concurrency, "surgekit.dev/planned-node": "n"},
            "ownerReferences": [{"uid": owner}],
        },
        "spec": {"nodeName": "n"} | spec,
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def test_figures_of_what_went_well() -> None:
    said = figures(found())
    assert (said["failures"], said["leaked"], said["on_planned_node"]) == ([], 0, 1.0)
    assert (said["changes"], said["carried_out"], said["overtaken"]) == (1, 1, 0)
    assert [said[f"{lag}_p95_s"] for lag in ("planned_lag", "serving_lag", "lag")] == [0.1, 0.5, 2.0]


@pytest.mark.parametrize(
    ("other", "words", "leaked"),
    [
        ({"changes": [Change("f", 8, 1, at_s=10.0)]}, "not carried out: f to 8", 0),
        ({"pods": [a_pod(concurrency="4")]}, "not as planned: f has a concurrency of 4", 0),
        ({"pods": [a_pod(ready="False")]}, "not as planned: f has a concurrency of 0", 0),
        (
            {"pods": [a_pod(schedulingGates=[{"name": "surgekit.dev/planned-placement"}])]},
            "1 pods behind a gate",
            1,
        ),
        ({"pods": [a_pod(owner="another")]}, "1 pods without an owner", 1),
        ({"left": 3}, "3 pods of deleted functions", 1),
        ({"end": Usage(100.0, 6, 30, 1.0)}, "threads: 5, then 6", 1),
        ({"end": Usage(100.0, 5, 35, 1.0)}, "open files: 30, then 35", 1),
        ({"end": Usage(126.0, 5, 30, 1.0)}, "memory: 100.0 MB, then 126.0", 1),
    ],
)
def test_what_is_wrong_is_said(other: Json, words: str, leaked: int) -> None:
    said = figures(found(**other))
    (failure,) = said["failures"]
    assert failure.startswith(words)
    assert said["leaked"] == leaked


def test_nothing_measured_is_not_a_lag_of_0() -> None:
    said = figures(found(changes=[Change("f", 8, 1, at_s=10.0, overtaken=True)], pods=[], functions=[]))
    assert (said["lag_p50_s"], said["planned_lag_p95_s"], said["on_planned_node"]) == (None, None, None)
    assert (said["overtaken"], said["carried_out"], said["failures"]) == (1, 0, [])


def test_what_is_wrong_ends_the_command_with_1_after_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "figures.json"
    monkeypatch.setattr(scale, "run", lambda plan, say: figures(found(left=3)))
    result = CliRunner().invoke(app, ["bench", "combofunc-scale", "--json", str(file)])
    assert (result.exit_code, str(result.exception)) == (1, "1 failures: 3 pods of deleted functions")
    assert json.loads(file.read_text())["leaked"] == 1


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


@pytest.mark.lab
def test_every_change_is_carried_out_and_nothing_stays(
    binaries: Binaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "figures.json"
    monkeypatch.setattr(scale.Plan, "quick", classmethod(lambda cls: SMALL))
    result = CliRunner().invoke(app, ["bench", "combofunc-scale", "--quick", "--json", str(file)])
    said = json.loads(file.read_text())
    assert (result.exit_code, said["failures"], said["leaked"]) == (0, [], 0)
    assert said["carried_out"] + said["overtaken"] == said["changes"] == 12
    assert said["carried_out"] >= 3
    assert 0 < said["planned_lag_p50_s"] <= said["lag_p50_s"] <= said["lag_max_s"]
    assert said["pods"] >= 4
    assert said["controller_cpu_s"] > 0
    assert said["memory_mb_end"] > 20
