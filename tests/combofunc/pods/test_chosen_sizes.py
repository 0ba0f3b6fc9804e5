"""The sizes that NodePlans ask functions for."""

from __future__ import annotations

from typing import Any

import pytest

from combofunc.pods.chosen_sizes import ChosenSizeTable, read_requests

GOOD = {"namespace": "shop", "function": "f", "batch": "b", "sizes": {"small": 2}, "until": "x"}


def plan(*entries: Any) -> dict[str, Any]:
    return {"metadata": {"name": "fcma"}, "status": {"sizeRequests": list(entries)}}


@pytest.mark.parametrize(
    "bad",
    [None, 7, {}, GOOD | {"sizes": 7}, GOOD | {"sizes": {}}, GOOD | {"sizes": {"s": -1}},
     GOOD | {"sizes": {"s": "1"}}, GOOD | {"sizes": {"s": 10**9}}],
)  # fmt: skip
def test_a_request_that_makes_no_sense_is_left_out(bad: Any) -> None:
    assert read_requests(plan(bad, GOOD)) == {"f": {"b": {"small": 2}}}
    assert read_requests({"metadata": {}}) == {}


def test_functions_are_told_of_new_requests_once() -> None:
    table = ChosenSizeTable()
    assert table.put("fcma", read_requests(plan(GOOD))) == {"f"}
    assert table.put("fcma", read_requests(plan(GOOD))) == set()
    assert table.of("f") == {"b": {"small": 2}}
    assert table.put("fcma", {}) == set()
    assert table.of("f") == {}
    assert table.node_plans == set()
