"""Finds the fields of a protobuf message in its bytes without copying them.

Parsing would copy the 128 MiB of a request into newly allocated memory, which takes longer than all the rest
of decoding. The format: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["MalformedMessage", "fields"]

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}


class MalformedMessage(ValueError):
    """The bytes are not a message; the text says where."""


def fields(body: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (field number, start of the tag, start of the content, end) for each field, in order.

    The number is 0 for fields that are not length-delimited: in our messages these are integers.
    """
    at = start
    while at < end:
        begin = at
        tag = body[at]
        at += 1
        if tag > 127:
            tag, at = _varint(body, begin, end)
        kind = tag & 7
        if kind == _LENGTH:
            length, at = _varint(body, at, end)
            content, at = at, at + length
            number = tag >> 3
        else:
            number, content = 0, at
            if kind == _VARINT:
                _, at = _varint(body, at, end)
            elif kind in _FIXED_BYTES:
                at += _FIXED_BYTES[kind]
            else:
                raise MalformedMessage(f"wire type {kind} at byte {begin}")
        if at > end or tag < 8:
            raise MalformedMessage(f"field {tag >> 3} at byte {begin} is too long, or none")
        yield number, begin, content, at


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    """The value, and the position after it."""
    value = shift = 0
    while at < end and shift < 64:
        byte = body[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise MalformedMessage(f"a number at byte {at} does not end")
