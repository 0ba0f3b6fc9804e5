"""What a guest needs of this machine, and the Debian packages that it gets from the archive."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from kwok.errors import LabError
from kwok.places import cache_directory, made_once

__all__ = ["BUSYBOX", "QEMU", "packages", "why_no_guest"]

QEMU = "qemu-system-x86_64"
BUSYBOX = "bin/busybox"
# The package names the present version of the kernel; nothing is installed.
_KERNEL = "linux-image-cloud-amd64"
# Program -> Debian package.
_PROGRAMS = {
    QEMU: "qemu-system-x86",
    "apt-get": "apt",
    "apt-cache": "apt",
    "dpkg-deb": "dpkg",
    "ldd": "libc-bin",
}


def why_no_guest() -> str | None:
    """Why no guest can run on this machine; None if one can."""
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            return f"{program} is not on PATH: `apt-get install {package}`"
    return None


def packages() -> Path:
    """The unpacked files of kernel and busybox: downloaded once, not installed."""
    kernel = re.search(r"Depends: (linux-image-\S+)", _say("apt-cache", "depends", _KERNEL))
    if kernel is None:
        raise LabError(f"apt knows no {_KERNEL}: `apt-get update`, or a Debian of amd64")
    return made_once(cache_directory() / "guest" / kernel[1], lambda aside: _unpack(aside, kernel[1]))


def _unpack(into: Path, kernel: str) -> None:
    into.mkdir()
    _say("apt-get", "download", kernel, "busybox-static", directory=into)
    for package in into.glob("*.deb"):
        _say("dpkg-deb", "-x", str(package), str(into))
        package.unlink()


def _say(*argv: str, directory: Path | None = None) -> str:
    done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise LabError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout
