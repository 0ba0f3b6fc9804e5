"""Numbers of clients over time: the dynamic load of KneeScale IV-E, from the Azure trace of 2019.

The paper samples two days of the trace every 20 minutes, 144 points for about two hours, and scales
them to at most 30 clients; it prints neither the functions nor how long a point lasts. The sample at
hand has eight hours of one day: every fourth minute of it, 120 points, each held for a minute, is the
same two hours. So the load changes as often as the paper's; a night is not in it.

Each of our functions gets one function of the trace: eligible by a rule fixed before any policy ran
(`eligible`), then drawn by the round's seed. The paper does not say where its points reach 0. Here one client
stays, because without clients there is neither latency nor score.
"""

from __future__ import annotations

import csv
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kwok.errors import TrafficError

__all__ = [
    "ClientTrace", "Invocations", "burst_trace", "chosen", "client_traces", "eligible", "read", "write",
]  # fmt: skip

EXTRACT = Path(__file__).parent / "data" / "azure2019_clients.csv"
MINUTES_A_POINT = 4  # 480 minutes make 120 points
STEP_S = 60.0
MOST_CLIENTS = 30  # IV-E
SEED = 1


@dataclass(frozen=True)
class Invocations:
    """A function of the trace: its invocations in each sampled minute."""

    function: str
    trigger: str
    counts: tuple[int, ...]


@dataclass(frozen=True)
class ClientTrace:
    """Numbers of clients, one step after another; the last step stays."""

    function: str  # of the trace
    step_s: float
    clients: tuple[int, ...]

    @property
    def duration_s(self) -> float:
        return self.step_s * len(self.clients)

    def clients_at(self, now_s: float) -> int:
        return self.clients[max(0, min(int(now_s / self.step_s), len(self.clients) - 1))]

    def compressed(self, time_factor: float) -> ClientTrace:
        if not time_factor > 0:
            raise TrafficError(f"time_factor: {time_factor!r} must be above 0")
        return ClientTrace(self.function, self.step_s / time_factor, self.clients)


def client_traces(names: Sequence[str], data: Path | None, seed: int) -> dict[str, ClientTrace]:
    """A trace for each name, drawn from a sample in `data` or from the extract in this repository."""
    series = read(EXTRACT)
    if data is not None:
        series = sorted(filter(eligible, read(data / "invocations.csv", MINUTES_A_POINT)), key=_by_function)
    if len(series) < len(names):
        raise TrafficError(f"{data or EXTRACT}: {len(series)} functions are eligible, {len(names)} wanted")
    drawn = random.Random(f"traces/{seed}").sample(series, len(names))
    return {name: _scaled(one) for name, one in zip(names, drawn, strict=True)}


def burst_trace(seed: str, duration_s: float) -> ClientTrace:
    """No function of the trace: 1 to 5 clients for 3 to 12 minutes, then 20 to 30 for 1 to 5, and so on."""
    draw, clients = random.Random(seed), list[int]()
    while len(clients) < duration_s / STEP_S:
        clients += [draw.randint(1, 5)] * draw.randint(3, 12)
        clients += [draw.randint(20, MOST_CLIENTS)] * draw.randint(1, 5)
    return ClientTrace("bursts", STEP_S, tuple(clients))


def _by_function(series: Invocations) -> str:
    return series.function


def eligible(series: Invocations) -> bool:
    """A load that varies, at a resolution that 30 clients can show."""
    counts = series.counts
    mean = statistics.fmean(counts)
    return (
        series.trigger != "timer"  # not periodic
        and max(counts) >= 10  # fewer levels would mean steps of more than three clients
        and sum(count > 0 for count in counts) >= len(counts) / 4  # not asleep most of the time
        and statistics.pstdev(counts) >= 0.1 * mean  # not constant
        and mean >= max(counts) / 10  # at least three clients on average, not only a few spikes
    )


def chosen(trace: Sequence[Invocations], count: int = 5) -> list[Invocations]:
    """`count` random eligible functions, or all if there are fewer."""
    candidates = sorted(filter(eligible, trace), key=_by_function)
    return random.Random(SEED).sample(candidates, min(count, len(candidates)))


def read(path: Path, every: int = 1) -> list[Invocations]:
    """Read a file in the public dataset's format, every so many minutes."""
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise TrafficError(f"{path}: cannot be read: {error.strerror}") from error
    if not rows or "HashFunction" not in rows[0]:
        raise TrafficError(f"{path}: no invocations in the format of the Azure dataset")
    minutes = sorted((name for name in rows[0] if name.isdigit()), key=int)[::every]
    try:
        return [
            Invocations(row["HashFunction"], row["Trigger"], tuple(int(row[minute]) for minute in minutes))
            for row in rows
        ]
    except (TypeError, ValueError) as error:
        raise TrafficError(f"{path}: {error}") from error


def write(path: Path, series: Sequence[Invocations]) -> None:
    """Write the extract of this repository: `write(EXTRACT, chosen(read(sample, MINUTES_A_POINT)))`."""
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["HashFunction", "Trigger", *range(len(series[0].counts))])
        table.writerows([one.function, one.trigger, *one.counts] for one in series)


def _scaled(series: Invocations) -> ClientTrace:
    most = max(series.counts)
    clients = tuple(max(1, round(MOST_CLIENTS * count / most)) for count in series.counts)
    return ClientTrace(series.function, STEP_S, clients)
