"""Images for the burst plane's lab: a static binary, and this machine's Python with a function.

No registry and no package mirror is asked: Python's files are those of the interpreter that runs this.
"""

from __future__ import annotations

import compileall
import hashlib
import os
import py_compile
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kwok.burst import function
from kwok.errors import ImageError
from kwok.images import oci
from kwok.places import cache_directory, made_once

__all__ = ["PYTHON", "python"]

PYTHON = "localhost/burst-python:lab"
_HOME = "usr/local"
# Large, and no function needs them.
_LEFT_OUT = (
    "__pycache__",
    "site-packages",
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "ensurepip",
    "lib2to3",
    "config-*",
)


def python(environ: Mapping[str, str] = os.environ) -> Path:
    """The image PYTHON as an OCI archive, cached."""
    digest = hashlib.sha256(sys.version.encode())
    for source in (function.__file__, oci.__file__, __file__):
        digest.update(Path(source).read_bytes())
    place = cache_directory(environ) / "images" / f"burst-python-{digest.hexdigest()[:16]}.tar"
    return made_once(place, _make)


def _make(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        root = Path(scratch) / "root"
        library = Path(sysconfig.get_paths()["stdlib"])
        ours = root / _HOME / "lib" / library.name
        shutil.copytree(library, ours, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        # Layers keep no times, so compiled files must not be compared with their sources'.
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compileall.compile_dir(str(ours), quiet=2, invalidation_mode=unchecked)
        program = Path(os.path.realpath(sys.executable))
        (root / _HOME / "bin").mkdir(parents=True)
        shutil.copy(program, root / _HOME / "bin" / "python3")
        for found in _libraries([program, *ours.glob("lib-dynload/*.so")]):
            place = root / (f"usr/lib/{found.name}" if "python" in found.name else str(found).lstrip("/"))
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(found, place)
        shutil.copy(function.__file__, root / "function.py")
        tree: dict[str, Path | None] = {
            str(path.relative_to(root)): None if path.is_dir() else path for path in root.rglob("*")
        }
        layer = Path(scratch) / "layer.tar"
        oci.write_layer(tree, layer)
        settings = oci.Settings(
            entrypoint=[f"/{_HOME}/bin/python3", "-I", "/function.py"], path=f"/{_HOME}/bin"
        )
        oci.write_image(PYTHON, [layer], settings, target)


def _libraries(files: list[Path]) -> set[Path]:
    """Shared libraries that these files load, and the loader."""
    said = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False).stdout
    words = {word for line in said.splitlines() for word in line.split() if word.startswith("/")}
    found = {Path(word) for word in words if not word.endswith(":") and Path(word).is_file()}
    if not found:
        raise ImageError("image burst-python: ldd lists no libraries of this Python")
    return found
