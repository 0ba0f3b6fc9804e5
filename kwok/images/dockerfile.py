"""Build surgekit's image from the project's Dockerfile, with buildah.

The base image (the Dockerfile's ARG PYTHON) is made of Debian packages instead of pulled.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kwok.errors import ImageError
from kwok.images import debian, oci, package_index
from kwok.places import cache_directory, made_once

__all__ = ["build", "context_files"]

PROJECT = Path(__file__).parents[2]
# What the Dockerfile expects of its base: `python` and `pip`. Wheels expect libstdc++ (PEP 600).
_PACKAGES = ("python3", "python-is-python3", "python3-pip", "libstdc++6", "ca-certificates")
_KEPT = 3  # archives beside the one just built, of 170 MB each
# In a mount namespace of its own: whatever ends buildah, no mount stays behind.
_ALONE = ("unshare", "--mount", "--propagation", "private", "--")


def build(reference: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the image as an OCI archive, cached by Dockerfile, lock, sources and base."""
    if not (PROJECT / "Dockerfile").exists():
        raise ImageError(
            f"image surgekit: it is built in the project's directory; no Dockerfile in {PROJECT}"
        )
    debian.need("surgekit", "buildah", "mmdebstrap")
    base = debian.root_file_system(_PACKAGES, environ)
    key = _key(base, context_files(PROJECT))
    place = cache_directory(environ) / "images" / f"surgekit-{key}.tar"

    def make(target: Path) -> None:
        _build(reference, key, base, target, environ)
        if _key(base, context_files(PROJECT)) != key:
            raise ImageError("image surgekit: sources changed while it was built; build it again")
        # Sources change often. Older archives than these are not needed by anybody who just asked for one.
        archives = sorted(place.parent.glob("surgekit-*.tar"), key=lambda file: file.stat().st_mtime)
        for old in archives[:-_KEPT]:
            old.unlink(missing_ok=True)

    return made_once(place, make)


def context_files(project: Path) -> Iterator[Path]:
    """What a build reads: the Dockerfile, and what `.dockerignore` lets through: names after `!`, not what
    matches a `**/` pattern."""
    lines = (project / ".dockerignore").read_text().splitlines()
    yield from (project / "Dockerfile", project / ".dockerignore")
    refused = [line.removeprefix("**/") for line in lines if line.startswith("**/")]
    for name in sorted(line.removeprefix("!") for line in lines if line.startswith("!")):
        for file in sorted([project / name, *(project / name).rglob("*")]):
            parts = file.relative_to(project).parts
            if not any(fnmatch.fnmatch(part, pattern) for part in parts for pattern in refused):
                yield file


def _key(base: Path, files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    status = base.stat()
    digest.update(repr((base.name, status.st_size, status.st_mtime_ns)).encode())
    for file in files:
        content = os.readlink(file).encode() if file.is_symlink() else b""
        if not content and file.is_file():
            content = file.read_bytes()
        digest.update(f"{file.relative_to(PROJECT)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _build(reference: str, key: str, base: Path, target: Path, environ: Mapping[str, str]) -> None:
    storage = cache_directory(environ) / "images" / "buildah"  # keeps layers: dependencies are installed once
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        scratch = Path(directory)
        buildah = _Buildah(storage, scratch, environ)
        python = f"localhost/python:{_key(base, [])}"
        if not buildah.has(python):
            oci.write_image(python, [base], oci.Settings(user="", path=debian.PATH), scratch / "base.tar")
            buildah("tag", buildah("pull", f"oci-archive:{scratch / 'base.tar'}").split()[-1], python)
        mounts = package_index.mounts(scratch, environ)
        # Not `reference`: a build of other sources may use the same storage at the same time.
        tag = f"localhost/surgekit:{key}"
        volumes = [f"--volume={ours}:{theirs}:ro" for ours, theirs in mounts.items()]
        buildah(
            "build", "--isolation=chroot", "--pull-never", "--layers", f"--build-arg=PYTHON={python}",
            *volumes, f"--tag={tag}", str(PROJECT),
        )  # fmt: skip
        buildah("push", tag, f"oci:{scratch / 'image'}")
        buildah.run("rmi", tag)  # refused while another build uses its layers: then it stays
        oci.pack(scratch / "image", reference, target)


class _Buildah:
    def __init__(self, storage: Path, scratch: Path, environ: Mapping[str, str]) -> None:
        driver = environ.get("STORAGE_DRIVER", "overlay")  # vfs where the cache is itself on an overlay
        self._storage = (f"--root={storage}", f"--runroot={scratch / 'run'}", f"--storage-driver={driver}")
        self._environ = dict(environ) | {"TMPDIR": str(scratch)}

    def __call__(self, *arguments: str) -> str:
        done = self.run(*arguments)
        if done.returncode != 0:
            raise ImageError(f"buildah {arguments[0]} failed:\n{(done.stdout + done.stderr).strip()[-3000:]}")
        return done.stdout

    def has(self, image: str) -> bool:
        return self.run("inspect", "--type=image", image).returncode == 0

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*_ALONE, "buildah", *self._storage, *arguments],
            env=self._environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
