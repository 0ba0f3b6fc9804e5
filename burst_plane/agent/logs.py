"""Instances' output, where collectors of containers' logs look for it.

One file for each function, which is renamed to .1 when half of its bound is reached: collectors follow that
as they follow the kubelet's rotation. An instance that writes faster than its bound waits in its own write.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import structlog

from burst_plane.instance.cri_log import LogFile, Splitter, file_name, is_named, surplus
from burst_plane.model import Function

__all__ = ["Logs", "Output"]

log = structlog.get_logger(__name__)

_READ_BYTES = 64 << 10
_PAUSE_S = 0.25
_READ_COSTS_BYTES = 512  # single bytes, fast, must not keep the agent busy


class Logs:
    def __init__(self, directory: Path, node: str, largest_bytes: int, bytes_s: int, most_bytes: int) -> None:
        self._directory, self._node, self._most_bytes = directory, node, most_bytes
        self._half, self._bytes_s = largest_bytes // 2, bytes_s
        self._said = ""
        self.written_bytes, self.lost_bytes = 0, 0
        self._cleaned_bytes = 0  # of written_bytes, when it was last cleaned up

    def begin(self) -> None:
        """Raise OSError."""
        self._directory.mkdir(parents=True, exist_ok=True)

    def clean(self) -> None:
        """Of all logs of this agent keep what was written last. Blocks. Raise OSError."""
        self._cleaned_bytes = self.written_bytes
        files = [
            LogFile(path.name, status.st_size, status.st_mtime)
            for path in self._directory.iterdir()
            if is_named(path.name, self._node)
            and stat.S_ISREG((status := path.lstat()).st_mode)  # the kubelet's are links
        ]
        for each in surplus(files, self._most_bytes):
            (self._directory / each).unlink(missing_ok=True)

    def output(self, function: Function) -> Output:
        return Output(self, self.path(function), self._bytes_s)

    def path(self, function: Function) -> Path:
        digest = hashlib.sha256(f"{self._node}/{function.namespace}/{function.name}".encode()).hexdigest()
        return self._directory / file_name(function.name, function.namespace, self._node, digest)

    def append(self, path: Path, lines: bytes) -> None:
        """A log that cannot be written must not stop an instance."""
        try:
            with path.open("ab", buffering=0) as file:
                file.write(lines)
                size = file.tell()
            self.written_bytes += len(lines)
            if size > self._half:
                path.replace(path.with_name(f"{path.name}.1"))
            # New functions may come faster than the hour: each has a log.
            if self.written_bytes - self._cleaned_bytes > self._most_bytes // 4:
                self.clean()
        except OSError as error:
            self.lost_bytes += len(lines)
            if str(error) != self._said:
                self._said = str(error)
                log.warning("log not written", error=self._said)


class Output:
    """The two pipes of one instance. `writers` are for its process; they are closed once it has them."""

    def __init__(self, logs: Logs, path: Path, bytes_s: int) -> None:
        self._logs, self._path, self._bytes_s = logs, path, bytes_s
        self._loop = asyncio.get_running_loop()
        self._readers: dict[int, Splitter] = {}
        writers = []
        for stream in ("stdout", "stderr"):
            reader, writer = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(reader, False)
            self._readers[reader] = Splitter(stream)
            writers.append(writer)
            self._loop.add_reader(reader, self._read, reader)
        self.writers = (writers[0], writers[1])
        self._left, self._filled_s = float(bytes_s), time.monotonic()

    def given(self) -> None:
        """The process has its ends."""
        for writer in self.writers:
            with suppress(OSError):
                os.close(writer)

    def close(self) -> None:
        """The process is gone. What it wrote last is in the pipes; of a larger one, the rest is lost."""
        for reader, splitter in self._readers.items():
            self._loop.remove_reader(reader)
            with suppress(OSError):
                self._write(splitter.feed(os.read(reader, _READ_BYTES), _now()))
            self._write(splitter.end(_now()))
            os.close(reader)
        self._readers.clear()

    def _read(self, reader: int) -> None:
        now_s = time.monotonic()
        self._left = min(self._left + (now_s - self._filled_s) * self._bytes_s, self._bytes_s)
        self._filled_s = now_s
        if self._left <= 0:
            self._loop.remove_reader(reader)
            self._loop.call_later(_PAUSE_S, self._resume, reader)
            return
        try:
            data = os.read(reader, min(_READ_BYTES, int(self._left) + 1))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:  # all writers are gone; `close` ends it
            self._loop.remove_reader(reader)
            return
        lines = self._readers[reader].feed(data, _now())
        # What is written counts: of an empty line that is 40 times what was read.
        self._left -= max(len(data), len(lines), _READ_COSTS_BYTES)
        self._write(lines)

    def _resume(self, reader: int) -> None:
        if reader in self._readers:
            self._loop.add_reader(reader, self._read, reader)

    def _write(self, lines: bytes) -> None:
        if lines:
            self._logs.append(self._path, lines)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "000Z")
