"""Messages arrive as they were sent; nonsense is refused, whatever it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limit_allocator.wire.messages import (
    CPU_ROWS,
    MOST_CONTAINERS,
    Ceiling,
    Found,
    Hello,
    MessageError,
    Orders,
    Pod,
    Report,
    ReserveOrder,
    ReserveReport,
    decode_from_agent,
    decode_orders,
    encode,
    table,
)

HELLO = Hello(node="node-1", boot_id="b", start=3, term=2)
REPORT = Report(
    number=7,
    term=2,
    at_us=5,
    room_bytes=1 << 30,
    found=(Found(key=1, pod_uid="u", container_id="c", quota_us=50_000, memory_bytes=1 << 28),),
    cpu=np.arange(12, dtype="<i8").tobytes(),
    reserves=(ReserveReport(application="a/b", applied=1, granted_bytes=2, spent_bytes=0),),
)
ORDERS = Orders(
    term=2,
    start=3,
    pods=(
        Pod(
            uid="u",
            application="a/b",
            growth_bytes=1,
            enforce=True,
            ceilings=(Ceiling(container_id="c", quota_us=1, memory_bytes=2),),
        ),
    ),
    reserves=(ReserveOrder(application="a/b", sequence=1, value_bytes=2),),
)


@pytest.mark.parametrize("message", [HELLO, REPORT])
def test_agents_messages_arrive_as_they_were_sent(message: Hello | Report) -> None:
    assert decode_from_agent(encode(message)) == message


def test_orders_arrive_as_they_were_sent() -> None:
    assert decode_orders(encode(ORDERS)) == ORDERS


def test_a_table_has_a_column_for_each_container() -> None:
    rows = table(REPORT.cpu, CPU_ROWS)
    assert rows.shape == (len(CPU_ROWS), 2)
    assert rows[0].tolist() == [0, 1]
    assert table(b"").shape == (1, 0)


@pytest.mark.parametrize("length", [8, 6 * 8 + 8, 6 * 8 * (MOST_CONTAINERS + 1)])
def test_a_table_of_another_shape_is_refused(length: int) -> None:
    with pytest.raises(MessageError, match=f"{length} bytes"):
        table(b"\0" * length, CPU_ROWS)


@pytest.mark.parametrize(
    "message",
    [
        Hello(node="", boot_id="b", start=0, term=0),
        Hello(node="n" * 257, boot_id="b", start=0, term=0),
        Hello(node="n", boot_id="b", start=-1, term=0),
        Hello(node="n", boot_id="b", start=0, term=1 << 50),
        Report(number=1, term=1, at_us=1, room_bytes=-1),
        Report(
            number=1, term=1, at_us=1, room_bytes=1,
            found=(Found(key=-1, pod_uid="u", container_id="c", quota_us=1, memory_bytes=1),),
        ),
        Report(
            number=1, term=1, at_us=1, room_bytes=1,
            reserves=(ReserveReport(application="", applied=1, granted_bytes=2, spent_bytes=0),),
        ),
    ],
)  # fmt: skip
def test_values_out_of_range_are_refused(message: Hello | Report) -> None:
    with pytest.raises(MessageError):
        decode_from_agent(encode(message))


@given(st.binary(max_size=200) | st.just(encode(ORDERS)) | st.just(b"\x91" * 5000))
def test_any_bytes_are_a_message_or_refused(content: bytes) -> None:
    try:
        message = decode_from_agent(content)
    except MessageError:
        return
    assert isinstance(message, Hello | Report)


@given(cut=st.integers(0, len(encode(REPORT)) - 1))
def test_a_message_that_was_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(MessageError):
        decode_from_agent(encode(REPORT)[:cut])
