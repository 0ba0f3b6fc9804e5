"""Who beats whom, by hand."""

from __future__ import annotations

import numpy as np

from combofunc.planner.dominance import beats


def test_a_row_beats_another_by_being_no_higher_anywhere() -> None:
    low, mixed, high = (1, 1), (0, 3), (2, 2)
    assert beats(np.array([low, mixed, high])).tolist() == [
        [False, False, True],
        [False, False, False],
        [False, False, False],
    ]
    assert beats(np.array([low, low])).tolist() == [[False, True], [False, False]], "of equals the first"
