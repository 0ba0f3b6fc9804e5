"""Numbers in annotations: read, or not; never an error, never longer than they can be."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surgekit.kube.numbers import decimal, integer

ANYTHING = st.none() | st.integers() | st.floats() | st.text() | st.lists(st.text())


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("7", 7), ("007", 7), ("-3", -3), ("100", 100), ("101", None), ("-101", None), ("", None),
        (" 1", None), ("+1", None), ("1_0", None), ("1.0", None), ("٣", None), ("²", None),
        ("9" * 5000, None), ("0" * 5000, None), (None, None), (5, None), ("1\n", None),
    ],
)  # fmt: skip
def test_integers(text: object, number: int | None) -> None:
    assert integer(text, -100, 100) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12.5", 12.5), ("0", 0.0), ("1794940000.123", 1794940000.123), ("nan", None), ("inf", None),
        ("-inf", None), ("1e400", None), ("1e3", None), (".5", None), ("5.", None), ("9" * 5000, None),
        ("1." + "0" * 5000, None), (None, None), (1.0, None), ("-1", None),
    ],
)  # fmt: skip
def test_decimals(text: object, number: float | None) -> None:
    assert decimal(text, 0.0, 1e11) == number


@given(ANYTHING)
def test_anything_is_a_number_or_none(value: object) -> None:
    whole, part = integer(value, -5, 5), decimal(value, -5.0, 5.0)
    assert whole is None or -5 <= whole <= 5
    assert part is None or (math.isfinite(part) and -5 <= part <= 5)


@given(st.integers(-(10**17), 10**17))
def test_what_was_written_is_read(number: int) -> None:
    assert integer(str(number), -(10**17), 10**17) == number
