"""Find the binaries of a lab, and build them if they are missing.

Binaries come in groups, each built when first used. A group is looked for in `SURGEKIT_BIN_DIR`, then in
the cache; otherwise it is built once from the pinned Go module beside this file (or, with
`SURGEKIT_BIN_SOURCE=download`, downloaded from the projects' releases).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kwok.binaries import build, release
from kwok.binaries.groups import (
    CORE,
    COREDNS,
    ETCD,
    GROUPS,
    HELM,
    KARPENTER,
    KUBERNETES,
    KWOK,
    METRICS_SERVER,
    PROMETHEUS,
    REAL_NODE,
    Group,
)
from kwok.errors import BinariesError
from kwok.places import cache_directory

__all__ = [
    "CORE",
    "COREDNS",
    "ETCD",
    "GROUPS",
    "HELM",
    "KARPENTER",
    "KUBERNETES",
    "KWOK",
    "METRICS_SERVER",
    "PROMETHEUS",
    "REAL_NODE",
    "Binaries",
    "Group",
]


@dataclass
class Binaries:
    """Paths of binaries by name. A group is made ready when one of its binaries is first needed."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _ready: dict[str, Path] = field(default_factory=dict)

    def path(self, binary: str) -> Path:
        for group in GROUPS:
            if binary in group.packages:
                return self.directory(group) / binary
        known = sorted(b for g in GROUPS for b in g.packages)
        raise BinariesError(f"no group builds {binary!r}; known: {', '.join(known)}")

    def directory(self, group: Group) -> Path:
        if group.name not in self._ready:
            self._ready[group.name] = self._find(group)
        return self._ready[group.name]

    def _find(self, group: Group) -> Path:
        if given := self.environ.get("SURGEKIT_BIN_DIR"):
            return _complete(Path(given).resolve(), group)
        source = self.environ.get("SURGEKIT_BIN_SOURCE", "build")
        if source not in ("build", "download"):
            raise BinariesError(f"SURGEKIT_BIN_SOURCE: {source!r} is neither 'build' nor 'download'")
        kind = group.key() + ("-release" if source == "download" and group.released else "")
        place = cache_directory(self.environ) / "bin" / f"{group.name}-{kind}"
        if not place.exists():
            with _alone(place):
                if not place.exists():
                    self._make(group, place)
        return _complete(place, group)

    def _make(self, group: Group, place: Path) -> None:
        # Built aside and renamed, so that a killed build leaves nothing that looks complete.
        scratch = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
        try:
            if place.name.endswith("-release"):
                release.download(group, scratch, self.path("kwokctl"))
            else:
                build.build(group, scratch, self.environ)
            _complete(scratch, group)
            scratch.rename(place)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _complete(directory: Path, group: Group) -> Path:
    for binary in group.packages:
        if not os.access(directory / binary, os.X_OK):
            raise BinariesError(f"{binary} is not in {directory} (or not executable)")
    return directory


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Lock a group while it is built; the lock ends with its process."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f".{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
