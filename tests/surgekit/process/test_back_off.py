"""Waits double up to a limit, however often something failed."""

from __future__ import annotations

import pytest

from surgekit.process.back_off import back_off_s


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 1.0), (2, 2.0), (4, 8.0), (7, 60.0), (1025, 60.0), (10**9, 60.0)]
)
def test_waits_double_up_to_the_longest(failures: int, seconds: float) -> None:
    assert back_off_s(failures, 1.0, 60.0) == seconds
