"""The explanation of an application's limits, from the status that the controller writes."""

from __future__ import annotations

from typing import Any

import pytest

from limit_allocator.explanation import NothingToExplain, explain, sparkline
from tests.limit_allocator.objects import distributed_container
from tests.limit_allocator.test_status import NOW, said


def explained(status: dict[str, Any] | None) -> Any:
    return explain(distributed_container() | {"status": status}, NOW + 5)


def test_what_the_status_says() -> None:
    told = explained(said(before=said()))
    assert (told.application, told.mode, told.age_s, told.pods) == ("shop/web", "enforce", 5.0, 1)
    assert (told.limit["cpu"], told.used["memory"], told.events_survived) == ("4000m", "100Mi", 7)
    (one,) = told.containers
    assert (one.cpu_millicores, one.throttled_percent, one.changed_s_ago) == (500, 25, 8.0)
    assert one.reason == "throttled in 3 of 10"
    assert told.conditions[0][:3] == ("Enforced", "True", "Enforcing")
    assert [(line.name, line.unit, line.values, line.top) for line in told.lines] == [
        ("CPU limits", "m", (1500, 1500), 1500),
        ("CPU used", "m", (200, 200), 1500),
        ("memory limits", "Mi", (256, 256), 256),
        ("memory used", "Mi", (100, 100), 256),
    ]


@pytest.mark.parametrize("status", [None, {}, {"conditions": "x"}])
def test_before_the_first_decision_it_says_what_to_look_at(status: dict[str, Any] | None) -> None:
    with pytest.raises(
        NothingToExplain, match=r"shop/web: no limits yet and no condition\. Is the controller"
    ):
        explained(status)


def test_a_condition_without_a_decision_is_told() -> None:
    condition = {"type": "Enforced", "reason": "InvalidSpec", "message": "spec.cpu: 'x'"}
    with pytest.raises(NothingToExplain, match=r"no limits yet, InvalidSpec: spec\.cpu"):
        explained({"conditions": [condition]})


def test_a_sparkline_has_one_scale() -> None:
    assert sparkline((0, 50, 100), 100) == "▁▅█"
    assert sparkline((0, 50), 200) == "▁▃"
    assert sparkline((0, 0), 0) == "▁▁"
    assert sparkline((), 0) == ""
