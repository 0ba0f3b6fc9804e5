"""Find the binaries of a lab, and build them if they are missing.

Binaries come in groups, each built when first used. A group is looked for in `SURGEKIT_BIN_DIR`, then in
the cache; otherwise it is built once from the pinned Go module beside this file (or, with
`SURGEKIT_BIN_SOURCE=download`, downloaded from the projects' releases).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kwok.binaries import build, release
from kwok.binaries.groups import (
    CONTAINERS,
    CORE,
    COREDNS,
    ETCD,
    GROUPS,
    HELM,
    KARPENTER,
    KNATIVE,
    KNATIVE_SCALING,
    KUBERNETES,
    KWOK,
    METRICS_SERVER,
    MICROSERVICE,
    PROMETHEUS,
    REAL_NODE,
    REGISTRY,
    VPA_RECOMMENDER,
    Group,
)
from kwok.errors import BinariesError
from kwok.places import cache_directory, made_once

__all__ = [
    "CONTAINERS",
    "CORE",
    "COREDNS",
    "ETCD",
    "GROUPS",
    "HELM",
    "KARPENTER",
    "KNATIVE",
    "KNATIVE_SCALING",
    "KUBERNETES",
    "KWOK",
    "METRICS_SERVER",
    "MICROSERVICE",
    "PROMETHEUS",
    "REAL_NODE",
    "REGISTRY",
    "VPA_RECOMMENDER",
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
        downloaded = source == "download" and group.released
        place = cache_directory(self.environ) / "bin" / f"{group.name}-{group.key()}"
        if downloaded:
            place = place.with_name(f"{place.name}-release")
        return _complete(made_once(place, lambda aside: self._make(group, aside, downloaded)), group)

    def _make(self, group: Group, into: Path, downloaded: bool) -> None:
        into.mkdir()
        if downloaded:
            release.download(group, into, self.path("kwokctl"))
        else:
            build.build(group, into, self.environ)
        _complete(into, group)


def _complete(directory: Path, group: Group) -> Path:
    for binary in group.packages:
        if not os.access(directory / binary, os.X_OK):
            raise BinariesError(f"{binary} is not in {directory} (or not executable)")
    for manifests in group.manifests:
        if not (directory / manifests).is_dir():
            raise BinariesError(f"{manifests} is not in {directory}")
    return directory
