from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from burst_plane.instance.connections import connected

# Of a process that listens on 8080 (1F90), has a client there, and asks another's 8080 something.
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
LISTENS = "   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1\n"
SERVES = "   1: 0200D30A:1F90 0100D30A:C350 01 00000000:00000000 00:00000000 00000000     0        0 2 1\n"
LEFT = "   2: 0200D30A:1F90 0100D30A:C352 08 00000000:00000000 00:00000000 00000000     0        0 3 1\n"
ASKS = "   3: 0200D30A:C354 0900D30A:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4 1\n"
OVER_6 = (
    "   0: 0000000000000000FFFF00000200D30A:1F90 0000000000000000FFFF00000100D30A:C350 01 "
    "00000000:00000000 00:00000000 00000000     0        0 5 1\n"
)


def test_only_an_open_connection_to_the_port_counts() -> None:
    for line, counts in ((LISTENS, False), (SERVES, True), (LEFT, False), (ASKS, False), (OVER_6, True)):
        assert connected((HEAD + line).encode(), 8080) is counts, line
    assert connected((HEAD + LISTENS + LEFT + ASKS + SERVES).encode(), 8080)
    assert not connected((HEAD + SERVES).encode(), 80)


@given(st.binary(max_size=200), st.integers(1, 65535))
def test_no_table_raises(table: bytes, port: int) -> None:
    connected(table, port)
