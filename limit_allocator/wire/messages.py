"""What agents and the controller say to each other.

An agent opens a stream with `Hello` and then sends one `Report` a tick. The controller answers with `Orders`:
at once (so that the agent knows its pods and the controller's term), and whenever there is something to do.

Containers are named by keys: numbers that the agent gives out, and never again within one start. So a reading
is a few integers. What belongs to many containers is a `Table`: rows of 64-bit integers, one column a
container. On the wire it is the bytes of a numpy array, so that a controller reads 10,000 containers ten
times a second.

A message that cannot be read is a `MessageError`. Every agent may send anything: sizes are bounded here, and
the controller checks that keys are the sender's.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
import numpy as np

from limit_allocator.allocation.model import Integers

__all__ = [
    "ACCOUNT_ROWS",
    "CPU_ORDER_ROWS",
    "CPU_ROWS",
    "MEMORY_ORDER_ROWS",
    "MEMORY_ROWS",
    "MOST_CONTAINERS",
    "Ceiling",
    "Found",
    "Hello",
    "MessageError",
    "Orders",
    "Pod",
    "Report",
    "ReserveOrder",
    "ReserveReport",
    "decode_from_agent",
    "decode_orders",
    "encode",
    "table",
]  # fmt: skip

MOST_CONTAINERS = 4096  # of one node; the kubelet's default is 110 pods
_MOST_PODS = 4096
_LONGEST = 256  # of a name or an id

# Rows of the tables, in this order. All but quotas, limits and values are running totals, so that a lost
# report loses nothing (`limit_allocator.allocation.telemetry`).
CPU_ROWS = ("key", "periods", "used_us", "throttled_periods", "throttled_us", "quota_us")
# `stuck_at_bytes` is the limit that the container hit since the last report; 0: none. `usage` is without page
# cache that the kernel can drop.
MEMORY_ROWS = ("key", "used_bytes", "stuck_at_bytes", "events", "oom_kills")
# `limit_allocator.allocation.node_account.AccountReport`
ACCOUNT_ROWS = ("key", "applied", "joined", "written", "grown", "folded")
CPU_ORDER_ROWS = ("key", "sequence", "quota_us")
MEMORY_ORDER_ROWS = ("key", "sequence", "limit_bytes", "grown_seen")


T = TypeVar("T")


class MessageError(ValueError):
    """A message that makes no sense."""


class _Message(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=False):
    """Fields are sent by position: new ones go to the end, with a default."""


class Hello(_Message, frozen=True, tag=True):
    """An agent's first message on a stream."""

    node: str
    boot_id: str  # of the kernel: with another one, all containers of before are gone
    start: int  # how often the agent has started since the boot (`node_account`)
    term: int  # the highest controller's term it has greeted


class Found(_Message, frozen=True):
    """A container that an agent found in one of its pods. All are sent again on a new stream."""

    key: int
    pod_uid: str
    container_id: str
    quota_us: int  # its own limit, as the pod's spec has it, per 100 ms
    memory_bytes: int


class ReserveReport(_Message, frozen=True):
    """An application's memory reserve on this node (`NodeAccount.reserve_reports`)."""

    application: str
    applied: int
    granted_bytes: int
    spent_bytes: int


class Report(_Message, frozen=True, tag=True):
    """One tick of an agent."""

    number: int  # counts the reports of one start
    term: int  # greeted
    at_us: int  # the agent's monotonic clock, when it began to read
    room_bytes: int  # what the node can give before the kubelet evicts pods
    found: tuple[Found, ...] = ()
    gone: bytes = b""  # keys
    cpu: bytes = b""
    memory: bytes = b""
    cpu_accounts: bytes = b""  # those that changed; on a new stream all
    memory_accounts: bytes = b""
    reserves: tuple[ReserveReport, ...] = ()  # all that changed; on a new stream all
    foreign_writes: int = 0  # of limits by others, corrected since the agent's start


class Ceiling(_Message, frozen=True):
    """A container's limits in its pod's spec, once the API server has its id. Until then, its cgroup's."""

    container_id: str
    quota_us: int
    memory_bytes: int


class Pod(_Message, frozen=True):
    """A pod whose containers the agent looks after."""

    uid: str
    application: str  # names a reserve and its containers' common limit
    growth_bytes: int  # by which the agent raises a container's limit at a memory event
    enforce: bool  # False (shadow): read only
    burst: float = 0.0  # how much unused CPU time its containers may save up, as a share of their quotas
    ceilings: tuple[Ceiling, ...] = ()


class ReserveOrder(_Message, frozen=True):
    application: str
    sequence: int
    value_bytes: int


class Orders(_Message, frozen=True):
    """What an agent is to do. Orders for another start of it, or of an earlier term, are void."""

    term: int
    start: int
    pods: tuple[Pod, ...] | None = None  # all of the node; None: as before
    cpu: bytes = b""
    memory: bytes = b""
    reserves: tuple[ReserveOrder, ...] = ()


def table(content: bytes, rows: tuple[str, ...] = ("key",)) -> Integers:
    """The rows of a table, each an array with one place a container."""
    if len(content) % (8 * len(rows)) or len(content) > 8 * len(rows) * MOST_CONTAINERS:
        raise MessageError(f"a table of {len(rows)} rows has {len(content)} bytes")
    return np.frombuffer(content, "<i8").astype(np.int64, copy=False).reshape(len(rows), -1)


_encoder = msgspec.msgpack.Encoder()
_from_agent: msgspec.msgpack.Decoder[Hello | Report] = msgspec.msgpack.Decoder(Hello | Report)
_orders: msgspec.msgpack.Decoder[Orders] = msgspec.msgpack.Decoder(Orders)


def encode(message: Hello | Report | Orders) -> bytes:
    return _encoder.encode(message)


def decode_from_agent(content: bytes) -> Hello | Report:
    message = _decode(_from_agent, content)
    if isinstance(message, Hello):
        _check_text(message.node, message.boot_id)
        _check_counts(message.start, message.term)
        return message
    if len(message.found) > MOST_CONTAINERS or len(message.reserves) > _MOST_PODS:
        raise MessageError("a report is too long")
    _check_counts(message.number, message.term, message.at_us, message.room_bytes)
    for found in message.found:
        _check_text(found.pod_uid, found.container_id)
        _check_counts(found.key, found.quota_us, found.memory_bytes)
    for reserve in message.reserves:
        _check_text(reserve.application)
        _check_counts(reserve.applied, reserve.granted_bytes, reserve.spent_bytes)
    return message


def decode_orders(content: bytes) -> Orders:
    return _decode(_orders, content)


def _decode(decoder: msgspec.msgpack.Decoder[T], content: bytes) -> T:
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(f"a message cannot be read: {error}") from error


def _check_text(*texts: str) -> None:
    for text in texts:
        if not text or len(text) > _LONGEST:
            raise MessageError(f"{text[:_LONGEST]!r} is no name")


def _check_counts(*counts: int) -> None:
    for count in counts:
        if not 0 <= count < 1 << 50:
            raise MessageError(f"{count} is out of range")
