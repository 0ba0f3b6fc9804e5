"""Durations as Go and CEL write them."""

from __future__ import annotations

import pytest

from surgekit.kube import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30.0), ("1m30s", 90.0), ("1h", 3600.0), ("500ms", 0.5), ("7.5s", 7.5), ("1h0m0s", 3600.0),
        ("0s", 0.0), ("30", None), (30, None), ("-5s", None), ("", None), ("s", None), (None, None),
        ("1.5h", 5400.0), ("250ms", 0.25), ("1h1m1s1ms", 3661.001), ("+30s", None), ("30 s", None),
        ("1d", None), (".5s", None), ("30s\n", None), ("٣0s", None), ("1us", None),
    ],
)  # fmt: skip
def test_durations(text: object, seconds: float | None) -> None:
    assert duration.seconds(text) == seconds
