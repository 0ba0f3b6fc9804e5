"""An instance's output as lines of the CRI log format: time, stream, P (partial) or F (full), text.

https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["LogFile", "Splitter", "file_name", "is_named", "surplus"]

_LONGEST_LINE = 16 << 10  # as in containerd and CRI-O: longer ones come in parts


@dataclass(frozen=True, slots=True)
class LogFile:
    name: str
    size_bytes: int
    written_s: float


class Splitter:
    """Splits one stream. What it keeps is less than a line of the greatest length."""

    def __init__(self, stream: str) -> None:
        self._stream = stream.encode()
        self._rest = b""

    def feed(self, data: bytes, time: str) -> bytes:
        """Lines for these bytes, `time` in RFC 3339 with nanoseconds."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        head = time.encode() + b" " + self._stream
        lines: list[bytes] = []
        for text in whole:
            last = max(len(text) - 1, 0) // _LONGEST_LINE * _LONGEST_LINE
            lines += [
                b"%b P %b\n" % (head, text[i : i + _LONGEST_LINE]) for i in range(0, last, _LONGEST_LINE)
            ]
            lines.append(b"%b F %b\n" % (head, text[last:]))
        while len(self._rest) > _LONGEST_LINE:
            lines.append(b"%b P %b\n" % (head, self._rest[:_LONGEST_LINE]))
            self._rest = self._rest[_LONGEST_LINE:]
        return b"".join(lines)

    def end(self, time: str) -> bytes:
        """What was not ended by a newline."""
        return self.feed(b"\n", time) if self._rest else b""


def file_name(function: str, namespace: str, node: str, digest: str) -> str:
    """As the kubelet names its links, POD_NAMESPACE_CONTAINER-ID.log: that is what collectors read. `digest`
    has 64 hexadecimal digits. Names are those of Kubernetes objects; any other letter becomes a dash."""
    return f"{_safe(function)}-burst-{_safe(node)}_{_safe(namespace)}_{_safe(function)}-{digest}.log"


def is_named(name: str, node: str) -> bool:
    """Whether `file_name`, for this node, gives such names, with .1 (a file that was full) or without."""
    return bool(re.fullmatch(rf".*-burst-{re.escape(_safe(node))}_.*-[0-9a-f]{{64}}\.log(\.1)?", name))


def _safe(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "-" for c in name.lower())[:63]


def surplus(files: Iterable[LogFile], most_bytes: int) -> list[str]:
    """The files that were written longest ago, without which the rest is small enough. A tenant may make
    functions without end, and each has a log."""
    left, gone = 0, []
    for file in sorted(files, key=lambda each: (-each.written_s, each.name)):
        left += file.size_bytes
        if left > most_bytes:
            gone.append(file.name)
    return gone
