"""What HAProxy says to the placement: a request for an instance, and that a request has ended. Pure.

Both carry what clients sent (a Host, a unique id), so every reader is total: what makes no sense is None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address

import msgspec

from burst_plane.model import Started

__all__ = ["LARGEST_BYTES", "EndLine", "PlaceRequest", "is_plausible", "read_end_line", "read_place_request"]

LARGEST_BYTES = 2048
_LONGEST_NAME = 128
_HOST = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?\.[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
# Some syslog forms put a priority before the line.
_LINE = re.compile(
    r"(?:<\d{1,3}>)?\s*end ([A-Za-z0-9._:-]{1,128}) (-?\d{1,6}) (\S{1,8}) (-?\d{1,12}) (-?\d{1,12}) "
    r"(-?\+?\d{1,12})",
    re.ASCII,
)


class _Asked(msgspec.Struct):
    function: str
    request: str
    budget_ms: float


@dataclass(frozen=True, slots=True)
class PlaceRequest:
    host: str  # name.namespace
    request: str  # HAProxy's unique id
    budget_s: float


@dataclass(frozen=True, slots=True)
class EndLine:
    """-1 ms: it did not come so far."""

    request: str
    status: int
    termination: str  # HAProxy's session state
    connect_ms: int
    answer_ms: int
    total_ms: int

    @property
    def failed(self) -> bool:
        """The instance did not give an answer; a client that left is not its fault."""
        return not self.termination.startswith("C") and (self.answer_ms < 0 or self.status in (502, 503, 504))


def read_place_request(body: bytes) -> PlaceRequest | None:
    if len(body) > LARGEST_BYTES:
        return None
    try:
        asked = msgspec.json.decode(body, type=_Asked)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    host = asked.function.lower()
    if not _HOST.fullmatch(host) or not _ID.fullmatch(asked.request) or not 0 <= asked.budget_ms <= 3.6e6:
        return None
    return PlaceRequest(host, asked.request, asked.budget_ms / 1000.0)


def is_plausible(started: Started) -> bool:
    """Whether HAProxy may connect there: an agent is another machine, and HAProxy's own ports are not for
    requests."""
    try:
        place = ip_address(started.address)
        place = getattr(place, "ipv4_mapped", None) or place
    except ValueError:
        return False
    here = place.is_loopback or place.is_unspecified or place.is_link_local or place.is_multicast
    return not here and 0 < started.port < 1 << 16 and len(started.instance) <= _LONGEST_NAME


def read_end_line(line: bytes) -> EndLine | None:
    if len(line) > LARGEST_BYTES:
        return None
    found = _LINE.match(line.decode("ascii", errors="replace").strip())
    if found is None:
        return None
    request, status, termination, *times = found.groups()
    connect_ms, answer_ms, total_ms = (int(text.replace("+", "")) for text in times)
    return EndLine(request, int(status), termination, connect_ms, answer_ms, total_ms)
