"""Messages as msgpack. What cannot be read is a MessageError, and sizes are bounded."""

from __future__ import annotations

from typing import TypeVar

import msgspec

__all__ = ["LARGEST_BYTES", "MessageError", "decode", "encode"]

LARGEST_BYTES = 4 << 20

T = TypeVar("T")


class MessageError(ValueError):
    """A message that makes no sense."""


def encode(message: msgspec.Struct) -> bytes:
    return msgspec.msgpack.encode(message)


def decode(data: bytes, kind: type[T]) -> T:
    """Raise MessageError."""
    if len(data) > LARGEST_BYTES:
        raise MessageError(f"a message of {len(data)} bytes; at most {LARGEST_BYTES} are read")
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(f"{kind.__name__}: {error}") from error
