"""From a throttled period's end to a higher quota."""

from __future__ import annotations

import pytest

from experiments.escra.reactions import Reactions

Look = tuple[float, int, int]  # seconds, nr_throttled, quota


@pytest.mark.parametrize(
    ("looks", "took_ms", "unanswered"),
    [
        pytest.param([(0, 0, 50), (0.01, 1, 50), (0.06, 1, 80)], [50], 0, id="one episode"),
        pytest.param([(0, 0, 50), (0.1, 1, 50), (0.2, 2, 50), (0.25, 2, 80)], [150], 0, id="from its first"),
        pytest.param(
            [(0, 0, 50), (0.1, 1, 50), (0.2, 1, 40), (0.3, 1, 45)], [200], 0, id="a cut is no answer"
        ),
        pytest.param([(0, 0, 50), (0.1, 1, 50), (1.2, 2, 50)], [], 1, id="not answered"),
        pytest.param([(0, 0, 50), (0.1, 1, 80), (0.2, 1, 90)], [], 0, id="raised before it was seen"),
        pytest.param([(0, 7, 50), (0.1, 7, 80)], [], 0, id="not throttled"),
    ],
)
def test_episodes(looks: list[Look], took_ms: list[float], unanswered: int) -> None:
    reactions = Reactions()
    for now_s, throttled, quota_us in looks:
        reactions.note(now_s, "a", throttled, quota_us)
        reactions.note(now_s, "idle", 3, 50)
    assert reactions.took_ms == pytest.approx(took_ms)
    assert reactions.unanswered == unanswered
