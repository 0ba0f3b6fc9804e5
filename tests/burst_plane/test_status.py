"""The status of a BurstFunction: within its CRD's schema, bounded, and readable by the next leader."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from burst_plane.conditions import Readiness, conditions
from burst_plane.filter import InterArrivals
from burst_plane.model import Function, Prepared
from burst_plane.status import Facts, Regular, history_before, status_of
from burst_plane.traffic import Totals, View
from surgekit.process.modes import Mode
from tests.paths import MANIFESTS
from tests.readers.hostile_objects import JUNK

NOW_S = 1_700_000_000.0
SCHEMA = yaml.safe_load((MANIFESTS / "burst-plane" / "burstfunction.yaml").read_text())["spec"]["versions"][
    0
]["schema"]["openAPIV3Schema"]["properties"]["status"]
amounts = st.floats(0, 1e12, allow_nan=False)
counts = st.integers(0, 1 << 40)
views = st.builds(
    View, amounts, amounts, amounts, amounts, amounts, amounts, st.floats(0, 1),
    st.builds(Totals, counts, counts, counts, counts, counts), st.none() | amounts, st.booleans(),
)  # fmt: skip


def facts(view: View, saved: Any = (), reason: str = "", message: str = "") -> Facts:
    of = Prepared(function=Function("a", "b"), template="t", image_present=True, created=2, error=message)
    return Facts(3, Mode.ENFORCE, view, saved, Regular(1, 2, reason), Readiness(1, (("n", of),)))


def check(schema: Any, value: Any, where: str = "status") -> None:
    """The part of OpenAPI that the CRD uses. None removes a key."""
    if value is None:
        return
    kinds: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
    }
    assert isinstance(value, kinds[schema["type"]]), where
    if isinstance(value, dict):
        assert set(value) <= set(schema["properties"]), where
        assert set(schema.get("required", ())) <= set(value), where
        for key, item in value.items():
            check(schema["properties"][key], item, f"{where}.{key}")
    if isinstance(value, list):
        assert len(value) <= schema.get("maxItems", 1000), where
        for item in value:
            check(schema["items"], item, f"{where}[]")
    if isinstance(value, str):
        assert len(value) <= schema.get("maxLength", 1100), where
        assert value in schema.get("enum", [value]), where
    if isinstance(value, int):
        assert value >= schema.get("minimum", value), where


@given(
    views,
    st.lists(st.tuples(st.floats(0, 3600), st.integers(1, 1 << 30)), max_size=64),
    st.text(max_size=2000),
)
def test_every_status_fits_the_schema(view: View, saved: list[tuple[float, int]], text: str) -> None:
    of = facts(view, saved, text, text)
    said = conditions(Mode.ENFORCE, "Eligible", text, of.readiness)
    check(SCHEMA, status_of({}, said, of, NOW_S))


@given(st.lists(st.tuples(st.floats(0, 3000), st.integers(0, 5)), min_size=1, max_size=60))
def test_the_next_leader_reads_what_was_saved(arrivals: list[tuple[float, int]]) -> None:
    history = InterArrivals()
    for at_s, number in sorted(arrivals):
        history.observe(number, at_s)
    view = View(0, 0, 0, 0, 0, 0, 0, Totals(), None, False)
    body = status_of({}, [], facts(view, history.saved(3000.0)), NOW_S)
    saved, saved_s = history_before(body)
    assert saved_s == pytest.approx(NOW_S)
    restored = InterArrivals()
    restored.restore(saved, 3000.0, 3001.0)
    for percentile in (1, 50, 99):
        assert restored.percentile_s(percentile, 3001.0) == history.percentile_s(percentile, 3001.0)


@given(JUNK)
def test_nonsense_is_no_history(junk: Any) -> None:
    for status in (
        {"interArrivals": junk},
        {"interArrivals": {"seconds": junk, "number": junk, "savedTime": junk}},
    ):
        saved, _ = history_before(status)
        InterArrivals().restore(saved, 0.0, 1.0)


def test_hits_and_avoided_cold_starts() -> None:
    view = View(1, 1, 1, 0, 1, 0, 0.25, Totals(100, 20, 15, 3, 2), 4.0, True)
    emergency = status_of({}, [], facts(view), NOW_S)["emergency"]
    assert (emergency["hitShare"], emergency["coldStartsAvoided"], emergency["share"]) == (
        "0.7500",
        18,
        "0.2500",
    )
