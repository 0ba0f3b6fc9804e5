"""An instance's output as lines of the CRI log format: time, stream, P (partial) or F (full), text.

https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["LogFile", "Splitter", "file_name", "is_named", "surplus"]

_LONGEST_LINE = 16 << 10  # as in containerd and CRI-O: longer ones come in parts
_CUT = 37  # characters of names in a file's name


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
        full, part = head + b" F ", head + b" P "
        lines: list[bytes] = []
        for text in whole:
            left = text
            while len(left) > _LONGEST_LINE:
                lines.append(part + left[:_LONGEST_LINE] + b"\n")
                left = left[_LONGEST_LINE:]
            lines.append(full + left + b"\n")
        while len(self._rest) > _LONGEST_LINE:
            lines.append(part + self._rest[:_LONGEST_LINE] + b"\n")
            self._rest = self._rest[_LONGEST_LINE:]
        return b"".join(lines)

    def end(self, time: str) -> bytes:
        """What was not ended by a newline."""
        return self.feed(b"\n", time) if self._rest else b""


def file_name(function: str, namespace: str, node: str, digest: str) -> str:
    """As the kubelet names its links, POD_NAMESPACE_CONTAINER-ID.log: that is what collectors read. `digest`
    has 64 hexadecimal digits. Names are those of Kubernetes objects; any other letter becomes a dash, and all
    but the namespace are cut: a file's name has 255 bytes at most."""
    pod = f"{_safe(function)[:_CUT]}-burst-{_safe(node)[:_CUT]}"
    return f"{pod}_{_safe(namespace)}_{_safe(function)[:_CUT]}-{digest}.log"


def is_named(name: str, node: str) -> bool:
    """Whether `file_name`, for this node, gives such names, with .1 (a file that was full) or without."""
    return bool(re.fullmatch(rf".*-burst-{re.escape(_safe(node)[:_CUT])}_.*-[0-9a-f]{{64}}\.log(\.1)?", name))


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
