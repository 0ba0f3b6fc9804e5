"""Wait for a state of the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable

from kwok.errors import LabError
from surgekit.kube.client import ApiError

__all__ = ["wait_for"]

_LOOK_AGAIN_S = 0.05


def wait_for(condition: Callable[[], object], what: str, timeout_s: float = 90.0) -> None:
    """Poll until `condition()` holds.

    Objects of a live cluster fill up field by field. A missing field (LookupError) or object (404) means
    "not yet"; the error names it when time runs out.
    """
    deadline_s = time.monotonic() + timeout_s
    missing: Exception | None = None
    while True:
        try:
            if condition():
                return
            missing = None
        except LookupError as error:
            missing = error
        except ApiError as error:
            if error.code != 404:
                raise
            missing = error
        if time.monotonic() > deadline_s:
            last_look = f"; missing at the last look: {missing!r}" if missing else ""
            raise LabError(f"{what} did not come about in {timeout_s:g} s{last_look}") from missing
        time.sleep(_LOOK_AGAIN_S)
