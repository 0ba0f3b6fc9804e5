"""The records of the load generator: 16 bytes a request in a file, and summaries by interval."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["CONNECTION", "CUT", "RECORD", "Interval", "Records", "intervals", "read_records"]

RECORD = np.dtype(
    [
        ("sent_s", "<f8"),  # Unix time at which it was sent; in an open loop, at which it was due
        ("latency_s", "<f4"),  # from then to the end of its answer
        ("target", "<u2"),
        ("status", "<u2"),  # of HTTP, or one of the two below
    ]
)
CONNECTION = 0  # the connection failed before an answer began
CUT = 1  # the connection ended in the middle of the answer

Records = npt.NDArray[np.void]


@dataclass(frozen=True)
class Interval:
    """One target over some seconds. A request counts in the interval in which it ends, as at a gateway."""

    begin_s: float
    length_s: float
    answered: int
    errors: dict[int, int]  # by status
    latency_mean_s: float | None  # of those answered; None without any

    @property
    def throughput_per_s(self) -> float:
        return self.answered / self.length_s


def read_records(path: Path) -> Records:
    """The complete records in the file."""
    content = path.read_bytes()
    return np.frombuffer(content[: len(content) // RECORD.itemsize * RECORD.itemsize], RECORD)


def intervals(records: Records, target: int, begin_s: float, end_s: float, length_s: float) -> list[Interval]:
    """Whole intervals between `begin_s` and `end_s`, in order."""
    mine = records[records["target"] == target]
    ended_s = mine["sent_s"] + mine["latency_s"]
    found = []
    for number in range(int((end_s - begin_s) / length_s + 1e-9)):
        start_s = begin_s + number * length_s
        ended = mine[(ended_s >= start_s) & (ended_s < start_s + length_s)]
        good = ended[ended["status"] == 200]
        codes, counts = np.unique(ended[ended["status"] != 200]["status"], return_counts=True)
        found.append(
            Interval(
                start_s,
                length_s,
                len(good),
                dict(zip(codes.tolist(), counts.tolist(), strict=True)),
                float(good["latency_s"].mean()) if len(good) else None,
            )
        )
    return found
