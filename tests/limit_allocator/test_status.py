"""The status of a DistributedContainer: what it says, its conditions and its bounds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given

from limit_allocator import status
from limit_allocator.allowance import Allowance
from limit_allocator.conditions import REASONS
from limit_allocator.fleet.view import MOST_CONTAINERS
from limit_allocator.membership import Selection
from limit_allocator.pod import LeaveAlone
from limit_allocator.view import ContainerView, View
from surgekit.process.modes import Mode
from tests.limit_allocator.objects import application, container, pod
from tests.paths import MANIFESTS
from tests.readers.hostile_objects import JUNK

NOW = 1_800_000_000.0
ALLOWED = Allowance(400_000, 1 << 30, ceiling_cpu="4", ceiling_memory=str(1 << 30))
APPLICATION = Selection(application(), Mode.ENFORCE, (pod("p"),))
ONE = ContainerView(
    "p", "c", "n1", 50_000, 20_000, 0.25, 128 << 20, 100 << 20, NOW - 3, "throttled in 3 of 10"
)
VIEW = View(
    150_000, 256 << 20, 7, 1, nodes=frozenset({"n2", "n1"}),
    container_count=1, used_cpu_us=ONE.cpu_used_us, used_memory_bytes=ONE.memory_used_bytes,
    containers=(ONE,),
)  # fmt: skip
Json = dict[str, Any]


def said(
    app: Selection = APPLICATION,
    allowance: Allowance = ALLOWED,
    view: View = VIEW,
    before: Json | None = None,
) -> Json:
    return status.status_of(before or {}, app, allowance, view, NOW, 10.0)


def condition(content: Json, type_: str) -> tuple[str, str]:
    (found,) = [c for c in content["conditions"] if c["type"] == type_]
    assert found["observedGeneration"] == 3
    assert found["reason"] in REASONS[type_]
    return found["status"], found["reason"]


def test_amounts_and_containers() -> None:
    content = said()
    assert content["limit"] == {"cpu": "4000m", "memory": "1024Mi"}
    assert content["allocated"] == {"cpu": "1500m", "memory": "256Mi"}
    assert content["used"] == {"cpu": "200m", "memory": "100Mi"}
    assert content["unallocated"] == {"cpu": "2500m", "memory": "768Mi"}
    assert content["ceilings"] == {"cpu": "4", "memory": str(1 << 30)}
    assert (content["eventsSurvived"], content["oomKills"], content["nodes"]) == (7, 1, ["n1", "n2"])
    assert content["containerCount"] == 1
    assert content["containers"] == [
        {
            "pod": "p", "container": "c", "node": "n1", "cpuMillicores": 500, "cpuUsedMillicores": 200,
            "throttledPercent": 25, "memoryMiB": 128, "memoryUsedMiB": 100,
            "changedTime": "2027-01-15T07:59:57.000Z", "reason": "throttled in 3 of 10",
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("app", "view", "expected"),
    [
        (APPLICATION, VIEW, ("True", "Enforcing")),
        (replace(APPLICATION, mode=Mode.SHADOW), VIEW, ("False", "Shadow")),
        (replace(APPLICATION, mode=Mode.OFF), VIEW, ("False", "Off")),
        (replace(APPLICATION, pods=()), VIEW, ("False", "NoPods")),
        (APPLICATION, replace(VIEW, waiting=2), ("False", "Waiting")),
        (APPLICATION, replace(VIEW, waiting=2, silent_nodes=frozenset({"n2"})), ("False", "AgentsSilent")),
    ],
)
def test_enforced(app: Selection, view: View, expected: tuple[str, str]) -> None:
    assert condition(said(app, view=view), "Enforced") == expected


@pytest.mark.parametrize(
    ("allowance", "why"),
    [
        (
            replace(ALLOWED, cpu_us=9_000),
            "the floors of 2 containers add up to 0.1 cores, more than the limit of 0.09",
        ),
        (replace(ALLOWED, memory_bytes=31 << 20), "add up to 32 MiB, more than the limit of 31 MiB"),
    ],
)
def test_floors_that_exceed_the_limit_are_said_where_a_container_waits_for_it(
    allowance: Allowance, why: str
) -> None:
    app = replace(APPLICATION, pods=(pod("p"), pod("q")))
    waiting = replace(VIEW, waiting=1)
    content = said(app, allowance, waiting)
    assert condition(content, "Enforced") == ("False", "FloorsExceedLimit")
    (message,) = [c["message"] for c in content["conditions"] if c["type"] == "Enforced"]
    assert why in message
    assert "1 containers run at their ceilings" in message
    assert condition(said(app, view=waiting), "Enforced")[1] == "Waiting", "with room, they are on their way"
    # A ceiling under the floor is all that its container can want.
    small = replace(app, pods=(pod("p", container(limits={"cpu": "1m", "memory": "1Mi"})),))
    assert condition(said(small, allowance, waiting), "Enforced")[1] == "Waiting"


def test_one_too_many_has_no_ceilings_and_says_why() -> None:
    content = status.too_many_status(said(), 3, 20, NOW)
    assert {condition(content, type_)[1] for type_ in REASONS} == {"TooMany"}
    assert (content["mode"], content["ceilings"]) == ("off", {"cpu": None, "memory": None})
    assert status.says_too_many(content, 3)
    assert not status.says_too_many(content, 4)
    assert not status.says_too_many(said(), 3)


def test_what_the_namespace_does_not_allow_is_said() -> None:
    assert condition(said(), "LimitInForce") == ("True", "AsWritten")
    assert condition(said(), "CeilingsFit") == ("True", "Fit")
    less = replace(ALLOWED, limited_by=("quota q",), kept_because=("quota q counts",), ceiling_cpu=None)
    content = said(allowance=less)
    assert condition(content, "LimitInForce") == ("False", "AllowedLess")
    assert condition(content, "CeilingsFit") == ("False", "LimitsCounted")
    assert content["ceilings"] == {"cpu": None, "memory": str(1 << 30)}


def test_admission_finds_no_ceilings_unless_it_enforces() -> None:
    content = said(replace(APPLICATION, mode=Mode.SHADOW))
    assert content["ceilings"] == {"cpu": None, "memory": None}
    assert condition(content, "CeilingsFit") == ("Unknown", "NotEnforcing")


def test_pods_of_another_and_pods_left_alone() -> None:
    app = replace(
        APPLICATION,
        of_others=tuple((pod(f"o{i}"), "shop/old") for i in range(5)),
        left_alone=((pod("a"), LeaveAlone.NO_LIMITS), (pod("b"), LeaveAlone.NO_LIMITS)),
    )
    content = said(app)
    assert condition(content, "Exclusive") == ("False", "PodsOfAnother")
    (message,) = [c["message"] for c in content["conditions"] if c["type"] == "Exclusive"]
    assert "o0 (shop/old), o1 (shop/old), o2 (shop/old) and 2 more" in message
    assert content["leftAlone"] == [{"reason": "NoLimits", "pods": 2, "example": "a"}]


def test_a_spec_that_cannot_be_read_is_said_and_the_rest_stays() -> None:
    content = status.invalid_status(said(), 3, "spec.cpu: 'x'", NOW)
    assert set(content) == {"conditions"}
    assert condition(content, "Enforced") == ("False", "InvalidSpec")


def test_history_keeps_the_last_steps() -> None:
    content: Json = {}
    for i in range(status.HISTORY + 5):
        content = said(view=replace(VIEW, allocated_cpu_us=100 * i), before=content)
    history = content["history"]
    assert {len(history[name]) for name in status.SERIES} == {status.HISTORY}
    assert history["cpuAllocatedMillicores"][-2:] == [status.HISTORY + 3, status.HISTORY + 4]
    other_step = status.status_of(content, APPLICATION, ALLOWED, VIEW, NOW, 5.0)["history"]
    assert [len(other_step[name]) for name in status.SERIES] == [1] * 4


def test_nodes_are_read_back_and_too_many_are_an_error() -> None:
    assert status.nodes_before(said()) == {"n1", "n2"}
    assert status.nodes_before({"nodes": [1, "n"]}) == {"n"}
    assert status.nodes_before({"nodes": 5}) == frozenset()
    with pytest.raises(status.TooManyNodes, match="5001 nodes"):
        status.nodes_status(frozenset(f"n{i}" for i in range(5001)))


@given(JUNK)
def test_a_history_that_somebody_edited_harms_nothing(junk: object) -> None:
    before = {"history": {"stepSeconds": 10.0, status.SERIES[0]: junk, status.SERIES[1]: [1, 2]}}
    history = said(before=before)["history"]
    assert len({len(history[name]) for name in status.SERIES}) == 1


def test_the_largest_status_fits_into_an_object() -> None:
    """etcd takes 1.5 MiB; a status with 5,000 nodes and long names is far below."""
    long = replace(ONE, pod="p" * 253, container="c" * 63, node="n" * 253, reason="r" * 1000)
    view = replace(
        VIEW, nodes=frozenset(f"{i:04}{'n' * 59}" for i in range(5000)), containers=(long,) * MOST_CONTAINERS
    )
    content: Json = {}
    for _ in range(status.HISTORY):
        content = said(view=view, before=content)
    assert len(json.dumps(content)) < 500_000
    assert {len(c["reason"]) for c in content["containers"]} == {200}


def _undeclared(value: Any, schema: Json, path: str) -> list[str]:
    """Fields that the API server would prune, and lists and texts that it would refuse."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        unknown = [f"{path}.{key}" for key in value if key not in properties]
        return unknown + [
            w
            for k, v in value.items()
            if k in properties
            for w in _undeclared(v, properties[k], f"{path}.{k}")
        ]
    if isinstance(value, list):
        long = [path] if len(value) > schema.get("maxItems", len(value)) else []
        return long + [w for v in value for w in _undeclared(v, schema["items"], f"{path}[]")]
    return [path] if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)) else []


def test_the_crd_keeps_everything_it_says() -> None:
    crd = yaml.safe_load((MANIFESTS / "limit-allocator/distributedcontainer.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    app = replace(APPLICATION, left_alone=((pod("a"), LeaveAlone.NO_LIMITS),))
    assert _undeclared(said(app), schema, "status") == []


def test_the_crd_explains_every_reason() -> None:
    text = (MANIFESTS / "limit-allocator/distributedcontainer.yaml").read_text()
    reasons = {reason for of in REASONS.values() for reason in of} | {str(why) for why in LeaveAlone}
    assert {reason for reason in reasons if reason not in text} == set()
