"""The same fields as protobuf finds, or refused as it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st

from cluster_autoscaler_hook.expander import expander_pb2
from cluster_autoscaler_hook.expander.scan import MalformedMessage, fields

# Numbers that no message of ours knows: protobuf then hands them over as they are.
_UNKNOWN = st.integers(20, 3000)
_FIELDS = st.lists(
    st.one_of(
        st.tuples(_UNKNOWN, st.just(0), st.integers(0, 2**64 - 1)),
        st.tuples(_UNKNOWN, st.just(1), st.binary(min_size=8, max_size=8)),
        st.tuples(_UNKNOWN, st.just(2), st.binary(max_size=300)),
        st.tuples(_UNKNOWN, st.just(5), st.binary(min_size=4, max_size=4)),
    )
)


def _varint(value: int) -> bytes:
    return (b"" if value < 128 else bytes([value & 127 | 128])) + (
        bytes([value]) if value < 128 else _varint(value >> 7)
    )


def _encoded(number: int, kind: int, value: int | bytes) -> bytes:
    tag = _varint(number << 3 | kind)
    if isinstance(value, int):
        return tag + _varint(value)
    return tag + (_varint(len(value)) if kind == 2 else b"") + value


@given(_FIELDS)
def test_as_protobuf_finds_them(written: list[tuple[int, int, int | bytes]]) -> None:
    body = b"".join(_encoded(*field) for field in written)
    unknown: Any = UnknownFieldSet(
        expander_pb2.Option.FromString(body)
    )  # the stubs forget that it is a sequence
    theirs = list(unknown)
    found = list(fields(b"before" + body, 6, 6 + len(body)))
    bodies = [(b"before" + body)[start:end] for number, _, start, end in found if number]
    assert bodies == [field.data for field in theirs if field.wire_type == 2]
    assert [f[0] for f in found] == [f.field_number if f.wire_type == 2 else 0 for f in theirs]
    assert b"".join((b"before" + body)[begin:end] for _, begin, _, end in found) == body


@given(st.binary(max_size=40))
def test_what_is_accepted_by_protobuf_is_by_us(body: bytes) -> None:
    try:
        expander_pb2.Option.FromString(body)
    except DecodeError:
        return
    try:
        list(fields(body, 0, len(body)))
    except MalformedMessage as error:
        if "wire type 3" not in str(error):  # groups, which nobody has sent since proto2
            raise


@pytest.mark.parametrize(
    "body", [b"\x0a\x05abc", b"\x0a", b"\x80" * 11, b"\x02\x00", b"\x0b\x0c", b"\x09abc"]
)
def test_no_message(body: bytes) -> None:
    with pytest.raises(MalformedMessage):
        list(fields(body, 0, len(body)))
