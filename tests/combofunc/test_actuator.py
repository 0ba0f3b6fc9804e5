"""What an answer of the API server means for an action."""

from __future__ import annotations

from typing import Any, cast

import pytest

from combofunc.actuator import carry_out
from combofunc.pods.actions import Undrain
from surgekit.kube.client import ApiError, Kube

OTHER_UID = 'Pod "web-0" is invalid: metadata.uid: Invalid value: "u": field is immutable'


class Answers:
    def __init__(self, error: ApiError) -> None:
        self.error = error

    def patch(self, *_: Any) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "gone", "failed", "refused"),
    [
        (ApiError(404, "NotFound", "pods web-0 not found"), "u", False, False),
        (ApiError(404, "NotFound", "the server could not find the requested resource"), "", True, True),
        (ApiError(409, "Conflict", "the object has been modified"), "", False, False),
        (ApiError(422, "Invalid", OTHER_UID), "", False, False),
        (ApiError(422, "Invalid", "spec.containers: Required value"), "", True, True),
        (ApiError(429, "TooManyRequests", "slow down"), "", True, False),
        (ApiError(500, "InternalError", ""), "", True, False),
    ],
)
def test_overtaken_refused_or_to_be_tried_again(
    error: ApiError, gone: str, failed: bool, refused: bool
) -> None:
    result = carry_out(cast(Kube, Answers(error)), "shop", Undrain("web-0", "u"))
    assert (result.gone, bool(result.failure), result.refused) == (gone, failed, refused)
