"""Logs of functions: bounded each, and all together."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from burst_plane.agent.logs import Logs
from burst_plane.model import Function

KIB = 1 << 10
F = Function("test", "f")


def logs(directory: Path, most_bytes: int = 1 << 30) -> Logs:
    made = Logs(directory, "node", 64 * KIB, 1 << 30, most_bytes)
    made.begin()
    return made


def test_a_log_is_renamed_when_half_of_its_bound_is_reached(tmp_path: Path) -> None:
    made = logs(tmp_path)
    for _ in range(100):
        made.append(made.path(F), b"x" * KIB)
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 66 * KIB
    assert len(list(tmp_path.iterdir())) == 2


def test_of_all_logs_the_latest_are_kept(tmp_path: Path) -> None:
    made = logs(tmp_path, most_bytes=3 * KIB)
    paths = [made.path(Function("test", f"f{n}")) for n in range(5)]
    for n, path in enumerate(paths):
        made.append(path, b"x" * KIB)
        os.utime(path, (n, n))
    theirs = tmp_path / "pod_ns_c-0.log"
    theirs.symlink_to("/nowhere")
    looks_like_ours = made.path(F)
    looks_like_ours.symlink_to("/nowhere")
    other_node = Logs(tmp_path, "other", 1, 1, 1).path(F)
    other_node.write_bytes(b"x" * 10 * KIB)
    made.clean()
    assert set(tmp_path.iterdir()) == {*paths[2:], theirs, looks_like_ours, other_node}


def test_logs_of_functions_without_end_are_bounded_at_every_moment(tmp_path: Path) -> None:
    made = logs(tmp_path, most_bytes=100 * KIB)
    for n in range(200):
        made.append(made.path(Function("test", f"f{n}")), b"x" * 5 * KIB)
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 130 * KIB


def test_empty_lines_are_bounded_by_what_is_written_of_them(tmp_path: Path) -> None:
    async def act() -> None:
        made = Logs(tmp_path, "node", 1 << 30, KIB, 1 << 30)
        made.begin()
        output = made.output(F)
        os.set_blocking(output.writers[0], False)
        os.write(output.writers[0], b"\n" * 60 * KIB)
        while not made.written_bytes:
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert made.written_bytes < 100 * KIB  # of more than 2 MiB
        output.given()
        output.close()

    asyncio.run(act())


def test_a_log_that_cannot_be_written_is_counted_and_stops_nothing(tmp_path: Path) -> None:
    made = logs(tmp_path)
    tmp_path.rmdir()
    made.append(made.path(F), b"lost")
    assert (made.written_bytes, made.lost_bytes) == (0, 4)


def test_output_arrives_line_by_line_and_the_last_without_a_newline(tmp_path: Path) -> None:
    async def act() -> None:
        made = logs(tmp_path)
        output = made.output(F)
        os.write(output.writers[0], b"one\ntw")
        os.write(output.writers[1], b"error")
        output.given()
        while not made.written_bytes:
            await asyncio.sleep(0)
        output.close()
        lines = [line.split(b" ", 1)[1] for line in made.path(F).read_bytes().splitlines()]
        assert sorted(lines) == [b"stderr F error", b"stdout F one", b"stdout F tw"]

    asyncio.run(act())
