"""What a ComboFunc's status says, and when it says something new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import yaml

from combofunc.planner.model import Container, Creation, Node, Plan, Resize, Size
from combofunc.reconcile import status
from combofunc.reconcile.spec import ComboFunc, SpecError, read
from combofunc.reconcile.status import Facts, Pods
from surgekit.kube.conditions import Condition, differs
from surgekit.process.modes import Mode
from tests.combofunc.reconcile.test_spec import BY_HAND, combofunc
from tests.paths import ROOT

CRD = ROOT / "manifests" / "combofunc" / "combofunc.yaml"
FUNCTION = read(combofunc())
SMALL, LARGE = FUNCTION.sizes
OLD = Size("old", 100, 2**20, 2)


def plan(target: int = 20, created: int = 2, removed: int = 1) -> Plan:
    return Plan(
        target=target,
        kept=(Container("f-1", "n1", SMALL),),
        resized=(Resize(Container("f-2", "n1", SMALL), LARGE),),
        removed=tuple(Container(f"g-{i}", "n2", OLD) for i in range(removed)),
        created=(Creation("n3", LARGE),) * created,
        scaling_s=1.23456,
        resource_price=7.5,
        cost=3.10956,
        reasons=("the reason",),
    )


def node(name: str, cores: int, gib: int, accepts: bool = True) -> Node:
    return Node(name, cores * 1000, gib * 2**30, 0, 0, 0, 0, 1.0, 0.1, accepts=accepts)


def build(
    before: dict[str, Any],
    said: Sequence[Condition] = (),
    now_s: float = 1000.0,
    function: ComboFunc = FUNCTION,
) -> dict[str, Any]:
    pods = {"small": Pods(2, 1), "old": Pods(1, 1)}
    return status.status_of(function, before, Facts(20, plan(), 999.5, pods, 3), said, now_s)


def test_a_status() -> None:
    assert build({}) == {
        "observedGeneration": 3,
        "selector": "surgekit.dev/combofunc=f",
        "targetConcurrency": 20,
        "plannedConcurrency": 25,
        "readyConcurrency": 3,
        "shortage": 0,
        "sizes": [
            {"name": "small", "planned": 1, "replicas": 2, "ready": 1},
            {"name": "large", "planned": 3, "replicas": 0, "ready": 0},
            {"name": "old", "planned": 0, "replicas": 1, "ready": 1},
        ],
        "plan": {
            "at": "1970-01-01T00:16:39.500Z",
            "target": 20,
            "kept": 1,
            "resized": [{"pod": "f-2", "from": "small", "to": "large"}],
            "removed": ["g-0"],
            "created": [{"node": "n3", "size": "large", "count": 2}],
            "omitted": 0,
            "scalingSeconds": 1.235,
            "resourcePrice": 7.5,
            "cost": 3.11,
            "reasons": ["the reason"],
        },
        "conditions": [],
    }


def test_before_the_first_plan_there_are_pods_already() -> None:
    first = status.status_of(FUNCTION, {}, Facts(None, None, 0.0, {"small": Pods(1, 1)}, 1), (), 1000.0)
    assert first["selector"], "an HPA asks for it at once"
    assert (first["targetConcurrency"], first["plan"], first["readyConcurrency"]) == (None, None, 1)
    assert not differs({k: v for k, v in first.items() if v is not None}, first), "null is what is not there"


def test_a_long_plan_is_cut_and_says_so() -> None:
    cut = status.plan_status(plan(removed=80), 0.0)
    assert (len(cut["removed"]), cut["omitted"], cut["kept"]) == (50, 30, 1)


def test_times_stay_while_nothing_changes() -> None:
    yes = Condition("Ready", True, "Ready", "m")
    first = build({}, [yes], 1000.0)
    again = build(first, [yes], 2000.0)
    assert again == first
    assert not differs(first, again)
    other_words = build(first, [replace(yes, reason="Rolling")], 2000.0)
    assert differs(first, other_words)
    (since,) = (c["lastTransitionTime"] for c in other_words["conditions"])
    assert since == first["conditions"][0]["lastTransitionTime"]
    no = build(first, [replace(yes, holds=False)], 2000.0)
    assert no["conditions"][0]["lastTransitionTime"] == "1970-01-01T00:33:20.000Z"
    assert build(first, [replace(yes, holds=None)], 2000.0)["conditions"][0]["status"] == "Unknown"


def test_a_spec_that_cannot_be_read_leaves_the_rest_of_the_status() -> None:
    obj = combofunc() | {"status": build({}, [Condition("Ready", True, "Ready", "m")])}
    patch = status.invalid_status(obj, SpecError(("spec.sizes: must be",)), 2000.0)
    assert set(patch) == {"observedGeneration", "conditions"}
    assert {(c["status"], c["reason"]) for c in patch["conditions"]} == {("False", "InvalidSpec")}
    assert [c["type"] for c in patch["conditions"]] == list(status.REASONS)
    assert patch["conditions"][0]["message"] == "spec.sizes: must be; pods stay as they are"


COLLECTED = read(combofunc(targetFrom="Collector", targetConcurrency=None))
SHADOW, PAUSED = replace(FUNCTION, mode=Mode.SHADOW), replace(FUNCTION, paused=True)
NODES = [node("n1", 4, 4), node("n2", 1, 64), node("huge", 99, 999, accepts=False)]
SHORT = plan(40)
CASES = [
    (status.target_known(FUNCTION, 20), True, "Spec", "spec.targetConcurrency"),
    (status.target_known(read(combofunc(**BY_HAND)), 3), True, "Replicas", "replicas"),
    (status.target_known(COLLECTED, 7), True, "Collector", "measures"),
    (
        status.target_known(read(combofunc(targetFrom="Collector")), 7),
        True,
        "SpecIgnored",
        "spec.targetConcurrency (20) is ignored",
    ),
    (
        status.target_known(COLLECTED, 7, "no series"),
        False,
        "NoData",
        "no series; the last target, 7, still holds",
    ),
    (status.target_known(COLLECTED, None, "no series"), False, "NoData", "nothing is planned"),
    (status.sizes_usable([SMALL, LARGE], NODES), True, "Usable", "every size"),
    (
        status.sizes_usable([SMALL, Size("wide", 3000, 32 * 2**30, 1)], NODES),
        False,
        "TooLarge",
        "(up to 4000m, 65536Mi): wide (3000m, 32768Mi)",
    ),
    (status.sizes_usable([SMALL], NODES[2:]), False, "NoNode", "no node takes its pods"),
    (
        status.planned(FUNCTION, plan()),
        True,
        "Planned",
        "keep 1, resize 1, remove 1, create 2: concurrency 25",
    ),
    (status.planned(SHADOW, plan()), True, "Shadow", "would keep 1"),
    (status.planned(FUNCTION, SHORT), False, "Shortage", "no node has room for 15: add nodes"),
    (
        status.planned(FUNCTION, SHORT, demand=(2, "2 pods wait")),
        *(False, "AwaitingNodes", "no node has room for 15; 2 pods wait"),
    ),
    (status.planned(FUNCTION, SHORT, rolling=True), False, "Rolling", "the rest after pods of the earlier"),
    (status.planned(FUNCTION, plan(), rolling=True), True, "Planned", "create 2"),
    (status.planned(FUNCTION, None), False, "NoTarget", "pods stay"),
    (status.planned(PAUSED, plan()), False, "Paused", "spec.paused is true; pods stay"),
    (status.planned(FUNCTION, None, unreadable="1 of 3"), False, "PodsUnreadable", "1 of 3; pods stay"),
    (
        status.planned(FUNCTION, plan(), failure="ZeroDivisionError"),
        False,
        "PlannerFailed",
        "ZeroDivisionError; ",
    ),
    (status.ready(FUNCTION, plan(), 20), True, "Ready", "concurrency 20 of 20"),
    (status.ready(FUNCTION, plan(), 20, "1 to remove"), True, "Rolling", "1 to remove"),
    (status.ready(FUNCTION, plan(), 19, "1 to create"), False, "Progressing", "19 of 20; 1 to create"),
    (status.ready(FUNCTION, SHORT, 25), False, "Shortage", "25 of 40"),
    (status.ready(FUNCTION, SHORT, 20, "1 to create"), False, "Progressing", "1 to create"),
    (status.ready(FUNCTION, plan(), 3, failure="pods is forbidden"), False, "Failing", "pods is forbidden"),
    (status.ready(FUNCTION, plan(), 25, failure="refused"), True, "Failing", "refused"),
    (status.ready(SHADOW, plan(), 3), False, "Shadow", "3 of 20"),
    (status.ready(PAUSED, plan(), 3), False, "Paused", "3 of 20"),
    (status.ready(FUNCTION, None, 3), None, "NoTarget", "concurrency 3"),
    (status.resized(""), True, "Resized", "no pod keeps"),
    (status.resized("one keeps it"), False, "MemoryInUse", "one keeps it"),
    (status.ready(FUNCTION, None, 3, failure="1 of 3"), None, "Failing", "concurrency 3; 1 of 3"),
]


@pytest.mark.parametrize(("said", "holds", "reason", "words"), CASES)
def test_what_is_said(said: Condition, holds: bool | None, reason: str, words: str) -> None:
    assert (said.holds, said.reason) == (holds, reason)
    assert words in said.message


def test_every_reason_is_said_and_explained_to_users() -> None:
    said = {(condition.type, condition.reason) for condition, *_ in CASES}
    assert said | {(t, "InvalidSpec") for t in status.REASONS} == {
        (type_, reason) for type_, reasons in status.REASONS.items() for reason in reasons
    }
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    condition = schema["properties"]["status"]["properties"]["conditions"]["items"]["properties"]
    for type_, reasons in status.REASONS.items():
        assert type_ in condition["type"]["description"]
        _, _, explained = condition["reason"]["description"].partition(f"{type_}: ")
        for reason in reasons:
            assert reason in explained
