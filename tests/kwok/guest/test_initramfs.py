"""The archive that a guest unpacks. tests/limit_allocator/cgroups boots one."""

from __future__ import annotations

import gzip
from pathlib import Path

from kwok.guest.initramfs import interpreter, pack


def _entries(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """Read cpio's newc format, as the kernel does."""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        numbers = [int(archive[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        mode, size, name_size = numbers[1], numbers[6], numbers[11]
        name = archive[at + 110 : at + 110 + name_size - 1].decode()
        begin = at + 110 + name_size + -(110 + name_size) % 4
        if name == "TRAILER!!!":
            return found
        found[name] = (mode, archive[begin : begin + size])
        at = begin + size + -size % 4


def test_packs_files_below_their_directories(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    file.chmod(0o640)
    entries = _entries(gzip.decompress(pack({"/a/b/file": file, "init": b"#!"})))
    assert entries == {
        "a": (0o040755, b""),
        "a/b": (0o040755, b""),
        "a/b/file": (0o100640, b"12345"),
        "init": (0o100755, b"#!"),
    }
    assert list(entries).index("a/b") < list(entries).index("a/b/file")


def test_the_interpreter_comes_with_its_libraries() -> None:
    names = set(interpreter())
    assert any(name.endswith("/json/decoder.py") for name in names)
    assert any("/libc.so" in name for name in names)
    assert not any("site-packages" in name for name in names)
