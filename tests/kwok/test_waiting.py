"""What is not there yet is waited for; what is wrong is told at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kwok.errors import LabError
from kwok.waiting import wait_for
from surgekit.kube.client import ApiError


def looks(*found: object) -> Callable[[], object]:
    """A condition that raises or answers these, one a look."""
    left: Iterator[object] = iter(found)

    def look() -> object:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return look


@pytest.mark.parametrize(
    "missing", [KeyError("resource"), IndexError(0), ApiError(404, "NotFound", "no hpa")]
)
def test_what_is_missing_is_not_there_yet(missing: Exception) -> None:
    wait_for(looks(missing, False, missing, True), "it is there")


def test_what_stays_missing_is_named() -> None:
    status: dict[str, object] = {}
    with pytest.raises(LabError, match=r"figures did not come about in 0.1 s; .*KeyError\('resource'\)"):
        wait_for(lambda: status["resource"], "figures", timeout_s=0.1)


@pytest.mark.parametrize("fault", [ApiError(403, "Forbidden", "no"), TypeError("a fault of the test")])
def test_other_errors_are_told_at_once(fault: Exception) -> None:
    with pytest.raises(type(fault)):
        wait_for(looks(fault), "anything")
