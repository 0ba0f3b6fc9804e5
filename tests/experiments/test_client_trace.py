"""Clients over time: the rule that chose the series, and the series that come along."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.client_trace import (
    ClientTrace,
    Invocations,
    burst_trace,
    chosen,
    client_traces,
    eligible,
    read,
    write,
)
from kwok.errors import TrafficError
from kwok.traffic.functions import FUNCTIONS


@pytest.mark.parametrize(
    ("trigger", "counts", "verdict"),
    [
        ("http", [5, 10, 20, 10], True),
        ("timer", [5, 10, 20, 10], False),
        ("http", [2, 4, 9, 4], False),  # too few levels
        ("queue", [20, 20, 20, 21], False),  # constant
        ("http", [0] * 16 + [10, 10, 10], False),  # asleep
        ("http", [1] * 30 + [100], False),  # one spike
    ],
)
def test_the_rule(trigger: str, counts: list[int], verdict: bool) -> None:
    assert eligible(Invocations("f", trigger, tuple(counts))) is verdict


def test_the_lot_depends_on_who_takes_part_not_on_their_order() -> None:
    trace = [Invocations(f"f{n}", "http", (5, 10, 20 + n)) for n in range(9)]
    assert chosen(trace) == chosen(trace[::-1])
    assert len({series.function for series in chosen(trace)}) == 5
    assert chosen(trace[:2], 5) in (trace[:2], trace[1::-1])


def test_the_series_that_come_along() -> None:
    traces = client_traces(list(FUNCTIONS), None, 1)
    assert list(traces) == list(FUNCTIONS)
    assert traces == client_traces(list(FUNCTIONS), None, 1)
    assert any(traces != client_traces(list(FUNCTIONS), None, seed) for seed in (2, 3, 4))
    assert len({trace.function for trace in traces.values()}) == 5
    for trace in traces.values():
        assert trace.duration_s == 7200
        assert max(trace.clients) == 30
        assert min(trace.clients) >= 1


def test_clients_at_a_time() -> None:
    trace = ClientTrace("f", 60.0, (3, 7))
    assert [trace.clients_at(now_s) for now_s in (-1, 0, 59.9, 60, 120, 1e6)] == [3, 3, 3, 7, 7, 7]
    assert trace.compressed(4).clients_at(15.0) == 7
    assert trace.compressed(4).duration_s == 30
    with pytest.raises(TrafficError, match="time_factor"):
        trace.compressed(-1)


def test_a_sample_of_the_dataset_is_read_every_fourth_minute(tmp_path: Path) -> None:
    path = tmp_path / "invocations.csv"
    path.write_text("HashOwner,HashApp,HashFunction,Trigger,480,481,482,483,484\no,a,f,http,12,1,1,1,40\n")
    assert read(path, 4) == [Invocations("f", "http", (12, 40))]
    assert client_traces(["x"], tmp_path, 1)["x"].clients == (9, 30)
    write(tmp_path / "extract.csv", read(path, 4))
    assert read(tmp_path / "extract.csv") == read(path, 4)
    with pytest.raises(TrafficError, match="1 functions are eligible, 2 wanted"):
        client_traces(["x", "y"], tmp_path, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("a,b\n1,2\n", "no invocations in the format"),
        ("HashFunction,Trigger,1\nf,http,many\n", "many"),
        ("HashFunction,Trigger,1,2\nf,http,3\n", "int"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "invocations.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(TrafficError, match=f"invocations.csv: .*{message}"):
        read(path)


def test_bursts_are_short_beside_the_time_between_them() -> None:
    clients = burst_trace("a", 7200.0).clients
    assert len(clients) >= 120
    assert {1 <= count <= 5 or 20 <= count <= 30 for count in clients} == {True}
    assert 0.1 < sum(count >= 20 for count in clients) / len(clients) < 0.6
