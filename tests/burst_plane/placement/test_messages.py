"""What HAProxy passes on was written by clients: every reader is total."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burst_plane.model import Started
from burst_plane.placement.messages import (
    EndLine,
    PlaceRequest,
    is_plausible,
    read_end_line,
    read_place_request,
)


def test_a_question_is_read() -> None:
    body = json.dumps({"function": "Resize.shop", "request": "7F:1_2-a.b", "budget_ms": 3000}).encode()
    assert read_place_request(body) == PlaceRequest("resize.shop", "7F:1_2-a.b", 3.0)


@pytest.mark.parametrize(
    "change",
    [
        {"function": "resize"}, {"function": "a.b.c"}, {"function": "../x.y"}, {"function": "a.b\n"},
        {"function": 7}, {"request": ""}, {"request": "a b"}, {"request": "x" * 129}, {"request": "é"},
        {"budget_ms": -1}, {"budget_ms": "3"}, {"budget_ms": 1e12}, {"budget_ms": None},
    ],
)  # fmt: skip
def test_nonsense_is_no_question(change: dict[str, object]) -> None:
    asked = {"function": "resize.shop", "request": "r", "budget_ms": 3000} | change
    assert read_place_request(json.dumps(asked).encode()) is None


def test_an_end_is_read() -> None:
    assert read_end_line(b"end 7F:1 200 -- 1 23 +45\n") == EndLine("7F:1", 200, "--", 1, 23, 45)
    assert read_end_line(b"<134>end 7F:1 503 SC -1 -1 45") == EndLine("7F:1", 503, "SC", -1, -1, 45)


@pytest.mark.parametrize(
    ("line", "failed"),
    [
        (b"end r 200 -- 0 1 2", False),
        (b"end r 500 -- 0 1 2", False),  # the function's own answer
        (b"end r 502 SH 0 -1 2", True),
        (b"end r 503 SC -1 -1 2", True),
        (b"end r 504 sH 0 -1 2", True),
        (b"end r -1 CD 0 -1 2", False),  # the client left
    ],
)
def test_an_instance_failed_if_it_gave_no_answer(line: bytes, failed: bool) -> None:
    end = read_end_line(line)
    assert end is not None
    assert end.failed is failed


@settings(max_examples=100)
@given(st.binary(max_size=300) | st.text(max_size=100).map(lambda t: f"end {t} 200 -- 1 2 3".encode()))
def test_no_bytes_break_a_reader(data: bytes) -> None:
    end, asked = read_end_line(data), read_place_request(data)
    assert end is None or end.request.isascii()
    assert asked is None or asked.host.count(".") == 1
    assert read_end_line(data * 100 + b"x" * 2048) is None


@pytest.mark.parametrize(
    ("address", "port", "plausible"),
    [
        ("10.0.1.7", 8080, True),
        ("fd00::7", 1, True),
        ("127.0.0.1", 8080, False),
        ("::1", 8080, False),
        ("0.0.0.0", 8080, False),  # noqa: S104
        ("::ffff:127.0.0.1", 8080, False),
        ("169.254.169.254", 80, False),
        ("ff02::1", 80, False),
        ("localhost", 80, False),
        ("10.0.1.7", 0, False),
        ("10.0.1.7", 1 << 16, False),
    ],
)
def test_where_an_instance_can_be(address: str, port: int, plausible: bool) -> None:
    started = Started(instance="b1", address=address, port=port, origin="created", start_s=0.0)
    assert is_plausible(started) is plausible
