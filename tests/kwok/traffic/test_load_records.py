"""What is said of requests is what was recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kwok.traffic.load_records import RECORD, intervals, read_records


def test_requests_count_in_the_interval_in_which_they_end(tmp_path: Path) -> None:
    rows = [
        (100.0, 0.5, 0, 200),
        (101.0, 1.5, 0, 200),  # ends in the second interval
        (101.0, 3.0, 0, 504),
        (101.5, 0.1, 0, 0),
        (100.0, 0.5, 1, 200),  # another target's
        (103.9, 0.5, 0, 200),  # ends after the last whole interval
    ]
    file = tmp_path / "requests.bin"
    file.write_bytes(np.array(rows, RECORD).tobytes() + b"\0" * 7)  # and half a record
    first, second = intervals(read_records(file), 0, begin_s=100.0, end_s=104.3, length_s=2.0)
    assert (first.answered, first.errors, first.throughput_per_s) == (1, {0: 1}, 0.5)
    assert first.latency_mean_s == pytest.approx(0.5)
    assert (second.begin_s, second.answered, second.errors) == (102.0, 1, {})
    assert second.latency_mean_s == pytest.approx(1.5)


def test_an_interval_without_an_answer_has_no_latency() -> None:
    (only,) = intervals(np.array([(0.5, 0.1, 0, 503)], RECORD), 0, begin_s=0.0, end_s=1.0, length_s=1.0)
    assert (only.answered, only.errors, only.latency_mean_s) == (0, {503: 1}, None)
