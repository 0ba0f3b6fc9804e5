"""Make root file systems from Debian packages, for images that need more than one static binary.

mmdebstrap asks Debian's own mirror, or the one in `SURGEKIT_DEBIAN_MIRROR`. The cache is keyed by the names
of packages, not by their versions: delete the file to get newer ones.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from kwok.errors import ImageError
from kwok.places import cache_directory, made_once

__all__ = ["PATH", "need", "root_file_system"]

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
_SUITE = "bookworm"
_HOOKS = Path("/usr/share/mmdebstrap/hooks")
# Without apt: nothing is installed later. usr-is-merged instead of usrmerge, which needs all of Perl (50 MB).
_BASE = ("usr-is-merged",)
_OPTIONS = (
    "--mode=root",
    "--variant=essential",
    f"--hook-dir={_HOOKS / 'merged-usr'}",
    "--dpkgopt=force-unsafe-io",  # what a crash leaves is thrown away
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    # As in the official Python images: in an image nobody else manages Python's packages (PEP 668).
    '--customize-hook=rm --force "$1"/usr/lib/python3*/EXTERNALLY-MANAGED',
    "--skip=output/dev",  # the container runtime makes its own
)


def need(image: str, *programs: str) -> None:
    """Refuse to build `image` where it cannot be built; the message says what would help."""
    if os.getuid() != 0:
        raise ImageError(f"image {image}: only root can build it")
    if missing := [program for program in programs if not shutil.which(program)]:
        raise ImageError(f"image {image}: missing: apt-get install {' '.join(missing)}")


def root_file_system(packages: Sequence[str], environ: Mapping[str, str] = os.environ) -> Path:
    """A tar with Debian's essential packages and these, cached."""
    include = ",".join((*_BASE, *packages))
    mirror = environ.get("SURGEKIT_DEBIAN_MIRROR", "")
    key = hashlib.sha256(repr((_SUITE, include, mirror, _OPTIONS)).encode()).hexdigest()[:16]

    def make(target: Path) -> None:
        # No SOURCE_DATE_EPOCH: it changes times of files, and then Python's compiled ones count as stale.
        argv = ["mmdebstrap", *_OPTIONS, "--format=tar", f"--include={include}", _SUITE, str(target)]
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            done = subprocess.run(
                [*argv, mirror] if mirror else argv,
                env=dict(environ) | {"TMPDIR": scratch}, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, check=False,
            )  # fmt: skip
        if done.returncode != 0:
            raise ImageError(f"mmdebstrap with {include} failed:\n{done.stderr.strip()[-2000:]}")

    return made_once(cache_directory(environ) / "images" / f"debian-{key}.tar", make)
