"""What the node can give before the kubelet evicts pods."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["NodeMemory", "available_bytes"]

_READ_EVERY_S = 1.0


def available_bytes(meminfo: str) -> int:
    """MemAvailable: what can be used without swapping, page cache included."""
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


@dataclass(slots=True)
class NodeMemory:
    """MemAvailable less the kubelet's eviction threshold, read once a second."""

    threshold_bytes: int
    meminfo: Path = Path("/proc/meminfo")
    _room_bytes: int = 0
    _next_s: float = float("-inf")

    def room_bytes(self, now_s: float) -> int:
        if now_s >= self._next_s:
            self._next_s = now_s + _READ_EVERY_S
            self._room_bytes = max(available_bytes(self.meminfo.read_text()) - self.threshold_bytes, 0)
        return self._room_bytes
