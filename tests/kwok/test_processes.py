"""Processes of a lab: found by their mark, ended without leftovers, clear when they do not start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwok.errors import ProcessError
from kwok.processes import Processes, marked_environment, take_down

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)",
]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "lab"
    place.mkdir()
    yield place
    take_down(place)


def test_a_process_that_dies_while_starting_shows_its_last_words(directory: Path) -> None:
    argv = [sys.executable, "-c", "import sys; sys.exit('no such flag')"]
    with pytest.raises(ProcessError, match="no such flag"):
        Processes(directory).start("bad", argv, ready=lambda: False)


def test_a_process_that_is_never_ready_is_ended(directory: Path) -> None:
    processes = Processes(directory)
    with pytest.raises(ProcessError, match=r"was not ready after 0\.2 s"):
        processes.start("slow", SLEEP, ready=lambda: False, timeout_s=0.2)
    assert processes.find("slow") is None


def test_started_once_stopped_and_started_again(directory: Path) -> None:
    processes = Processes(directory)
    first = processes.start("sleeper", SLEEP)
    with pytest.raises(ProcessError, match="already running"):
        processes.start("sleeper", SLEEP)
    processes.stop("sleeper")
    assert not first.alive()
    assert processes.start("sleeper", SLEEP).alive()
    processes.stop("never started")


def test_another_invocation_finds_and_kills_it(directory: Path) -> None:
    started = Processes(directory).start("sleeper", SLEEP)
    others = Processes(directory)
    assert [p.pid for p in others.all()] == [started.pid]
    others.kill("sleeper")
    assert not started.alive()


def test_a_stranger_with_a_recycled_pid_is_left_alone(directory: Path) -> None:
    stranger = subprocess.Popen(SLEEP)
    try:
        (directory / "pids").mkdir()
        (directory / "pids" / "old.pid").write_text(str(stranger.pid))
        Processes(directory).stop("old")
        take_down(directory)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_take_down_ends_children_of_children_and_the_deaf(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwok.processes._GRACE_S", 0.5)
    nested = f"import subprocess; subprocess.Popen({STUBBORN!r}, start_new_session=True).wait()"
    log = directory / "logs" / "parent.log"
    argv = [sys.executable, "-c", nested]
    Processes(directory).start("parent", argv, ready=lambda: b"deaf" in log.read_bytes())
    take_down(directory)
    assert not directory.exists()
    assert not _marked(directory)


@pytest.mark.parametrize(("word", "stays"), [("", False), ("ready", True), ("down", True)])
def test_the_watchdog_takes_down_unless_told_otherwise(directory: Path, word: str, stays: bool) -> None:
    """Its creator is killed by SIGKILL: the pipe closes without a word."""
    code = (
        "import sys, time; from pathlib import Path; from kwok.watchdog import Watchdog\n"
        "dog = Watchdog(Path(sys.argv[1]))\n"
        "if sys.argv[2]: dog.dismiss(sys.argv[2])\n"
        "print('watched', flush=True); time.sleep(60)"
    )
    sleeper = Processes(directory).start("sleeper", SLEEP)
    creator = subprocess.Popen([sys.executable, "-c", code, str(directory), word], stdout=subprocess.PIPE)
    assert creator.stdout is not None
    with creator, creator.stdout:
        assert creator.stdout.readline() == b"watched\n"
        os.kill(creator.pid, signal.SIGKILL)
    deadline_s = time.monotonic() + (1 if stays else 60)
    while directory.exists() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert sleeper.alive() is stays
    assert directory.exists() is stays


def _marked(directory: Path) -> list[str]:
    mark = f"SURGEKIT_LAB={marked_environment(directory)['SURGEKIT_LAB']}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in entry.read_bytes().split(b"\0"):
                found.append(entry.parent.name)
        except OSError:
            continue
    return found
