"""Pack one static binary of kwok/binaries as an image that has nothing else."""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kwok.binaries import Binaries
from kwok.errors import ImageError
from kwok.images import oci
from kwok.places import cache_directory, made_once

__all__ = ["build", "is_dynamic"]

_DIRECTORY = "/usr/local/bin"
_PT_INTERP = 3  # elf(5): the segment that names the dynamic linker


def build(name: str, reference: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the image of the binary `name` as an OCI archive, cached by the binary's content."""
    binary = Binaries(environ).path(name)
    if is_dynamic(binary):
        raise ImageError(
            f"image {name}: {binary} needs libraries. Builds without cgo need none: "
            f"delete {binary.parent}, and it is built again"
        )
    settings = oci.Settings(entrypoint=[f"{_DIRECTORY}/{name}"], path=_DIRECTORY)
    digest = hashlib.sha256(repr((reference, settings)).encode() + Path(oci.__file__).read_bytes())
    with binary.open("rb") as content:
        digest.update(hashlib.file_digest(content, "sha256").digest())

    def write(target: Path) -> None:
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            layer = Path(scratch) / "layer.tar"
            oci.write_layer({f"{_DIRECTORY}/{name}": binary}, layer)
            oci.write_image(reference, [layer], settings, target)

    return made_once(cache_directory(environ) / "images" / f"{name}-{digest.hexdigest()[:16]}.tar", write)


def is_dynamic(binary: Path) -> bool:
    """Whether a 64-bit ELF file asks for a dynamic linker."""
    with binary.open("rb") as file:
        header = file.read(64)
        if header[:5] != b"\x7fELF\x02":
            return False
        (at,) = struct.unpack_from("=Q", header, 32)  # e_phoff
        size, count = struct.unpack_from("=HH", header, 54)  # e_phentsize, e_phnum
        file.seek(at)
        table = file.read(size * count)
    return any(struct.unpack_from("=I", table, n * size)[0] == _PT_INTERP for n in range(count))
