"""Ports of labs that start at the same moment."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from kwok import ports


@contextmanager
def drawing(*first: int) -> Iterator[None]:
    """Chance draws these, and then as ever."""
    draws = iter(first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random, "randrange", lambda a, b: next(draws, None) or random.randint(a, b - 1))
        yield


def given(*draws: int) -> int:
    with drawing(*draws):
        return ports.free_ports(1)[0]


def test_no_port_is_given_twice() -> None:
    first, second = ports.free_ports(2)
    assert first != second
    assert given(first, second) not in (first, second)


def test_what_another_process_was_given_is_passed_over_while_it_lives() -> None:
    code = "import sys; from kwok import ports; print(*ports.free_ports(2), flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        theirs: Sequence[int] = [int(word) for word in other.stdout.readline().split()]
        assert given(*theirs) not in theirs
        other.communicate()
    assert given(theirs[0]) == theirs[0]


def test_a_port_that_somebody_listens_on_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert given(port) != port
