from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from burst_plane.instance.cri_log import Splitter, file_name

TIME = "2026-11-19T04:00:00.000000000Z"
LINE = re.compile(rb"\S+ stdout ([PF]) ([^\n]*)\n")


def read(lines: bytes) -> bytes:
    """As a collector does: parts are joined, and a full one ends its line."""
    found = LINE.findall(lines)
    assert b"".join(b"%s stdout %s %s\n" % (TIME.encode(), kind, text) for kind, text in found) == lines
    assert all(len(text) <= 16 << 10 for _, text in found)
    return b"".join(text + (b"\n" if kind == b"F" else b"") for kind, text in found)


@given(
    st.lists(st.binary(max_size=40) | st.sampled_from([b"x" * 40_000, b"\n", b"x" * (16 << 10)]), max_size=8)
)
def test_what_was_written_is_what_is_read(chunks: list[bytes]) -> None:
    splitter = Splitter("stdout")
    lines = b"".join(splitter.feed(chunk, TIME) for chunk in chunks) + splitter.end(TIME)
    written = b"".join(chunks)
    assert read(lines) == written + (b"" if written.endswith(b"\n") or not written else b"\n")


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_a_files_name_stays_in_its_directory_and_is_what_collectors_parse(f: str, ns: str, node: str) -> None:
    name = file_name(f, ns, node, "0" * 64)
    assert "/" not in name
    assert len(f"{name}.1") <= 255
    # Fluent Bit's kubernetes filter, and the kubelet's own links.
    assert re.fullmatch(r"[a-z0-9.-]*-burst-[a-z0-9.-]*_[a-z0-9.-]*_[a-z0-9.-]*-[0-9a-f]{64}\.log", name)
