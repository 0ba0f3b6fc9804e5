"""The bench of the live page runs, and counts what it feeds."""

from __future__ import annotations

import pytest

from experiments.browser import NoBrowser
from experiments.view.bench import run


def test_a_small_cluster() -> None:
    said = run(nodes=20, pods=200, functions=5, changes_per_s=40, rounds=4, seed=1, say=lambda _: None)
    assert said["snapshot_bytes"] > 200 * 200
    assert 0 < said["change_bytes"] < said["snapshot_bytes"]
    assert said["first_snapshot_s"] > 0
    assert said["snapshot_over_http_s"] > 0


def test_in_a_browser() -> None:
    try:
        said = run(20, 200, 5, changes_per_s=40, rounds=4, seed=1, say=lambda _: None, browser=True)
    except NoBrowser as error:
        pytest.skip(str(error))
    assert said["first_picture_ms"] > 0
    assert said["frames_per_s"] > 0
