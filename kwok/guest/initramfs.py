"""Pack a guest's files as an archive of cpio's `newc` format. The kernel unpacks it and starts `/init`."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from kwok.errors import LabError

__all__ = ["PACKAGES", "installed", "interpreter", "pack"]

PACKAGES = "/packages"

# Parts of the standard library that are large and that nothing in a guest imports.
_LEFT_OUT = {
    "site-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3",
    "pydoc_data", "distutils", "unittest", "email", "http", "xml", "xmlrpc", "multiprocessing",
    "sqlite3", "curses", "dbm", "wsgiref", "venv", "html", "tomllib", "zoneinfo", "msilib",
}  # fmt: skip
_DIRECTORY, _FILE = 0o040755, 0o100000


def interpreter() -> dict[str, Path]:
    """This Python with its standard library and shared libraries, at the paths where they are."""
    program = Path(sys.executable).resolve()
    library = Path(sysconfig.get_path("stdlib"))
    files = {str(program): program}
    for directory, below, names in os.walk(library):
        below[:] = [name for name in below if name not in _LEFT_OUT and not name.startswith("config-")]
        wanted = (
            name
            for name in names
            if not re.search(r"\.opt-\d\.pyc$|\.a$|_test|_codecs_(cn|hk|jp|kr|tw)", name)
        )
        files |= {f"{directory}/{name}": Path(directory, name) for name in wanted}
    for binary in [program, *(path for path in files.values() if path.suffix == ".so")]:
        files |= {path: Path(path) for path in _shared_libraries(binary)}
    return files


def installed(*names: str) -> dict[str, Path]:
    """Packages of this environment, and what wheels put beside them, in the guest's directory `PACKAGES`.

    Not at their paths here: the environment may be below a directory that the guest mounts over, as /tmp.
    """
    site = Path(sysconfig.get_path("purelib"))
    places = [place for name in names for place in (site / name, site / f"{name}.libs", site / f"{name}.py")]
    found = [
        path
        for place in places
        for path in ([place] if place.is_file() else place.rglob("*"))
        if path.is_file() and not {"tests", "__pycache__"} & set(path.relative_to(site).parts)
    ]
    tops = {Path(path.relative_to(site).parts[0]).stem for path in found}
    if missing := [name for name in names if name not in tops]:
        raise LabError(f"guest: {missing[0]} is not installed in {site}")
    files = {f"{PACKAGES}/{path.relative_to(site)}": path for path in found}
    for binary in [path for path in found if ".so" in path.suffixes]:
        libraries = [path for path in _shared_libraries(binary) if not path.startswith(f"{site}/")]
        files |= {path: Path(path) for path in libraries}
    return files


def _shared_libraries(binary: Path) -> list[str]:
    said = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False, timeout=60).stdout
    return re.findall(r"(/\S+) \(0x", said)


def pack(files: Mapping[str, Path | bytes]) -> bytes:
    """An initramfs of these files, by their paths in the guest. Modes are kept; bytes are programs."""
    entries: dict[str, tuple[int, bytes]] = {}
    for path, content in sorted(files.items()):
        name = path.lstrip("/")
        for above in reversed(Path(name).parents):
            entries.setdefault(str(above), (_DIRECTORY, b""))
        if isinstance(content, bytes):
            entries[name] = (_FILE | 0o755, content)
        else:
            entries[name] = (_FILE | content.stat().st_mode & 0o777, content.read_bytes())
    entries.pop(".", None)
    records = [_record(number, name, *entry) for number, (name, entry) in enumerate(entries.items(), 1)]
    return gzip.compress(b"".join((*records, _record(0, "TRAILER!!!", 0, b""))), 1)


def _record(number: int, name: str, mode: int, content: bytes) -> bytes:
    # inode, mode, uid, gid, links, mtime, size, four of devices, length of the name, checksum
    numbers = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name.encode()) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % n for n in numbers) + name.encode() + b"\0"
    return _padded(head) + _padded(content)


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 4)
