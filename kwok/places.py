"""The lab's directories: a cache that can be rebuilt, and the state of running labs."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["cache_directory", "labs_directory", "made_once"]


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Built binaries and images, and the Go toolchain; safe to delete."""
    return _base(environ, "SURGEKIT_CACHE_DIR", "XDG_CACHE_HOME", ".cache")


def labs_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """One directory for each lab: its etcd, logs, pid files and kubeconfigs."""
    return _base(environ, "SURGEKIT_STATE_DIR", "XDG_STATE_HOME", ".local/state") / "labs"


def made_once(place: Path, make: Callable[[Path], None]) -> Path:
    """Return `place`, a file or directory of the cache. If it is missing, one process makes it; others wait.

    `make` gets a path aside that is renamed at the end: a killed build leaves nothing that looks complete.
    """
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = place.with_name(f".{place.name}.part")
    with place.with_name(f".{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # ends with its process
        if not place.exists():
            try:
                _remove(aside)
                make(aside)
                aside.rename(place)
            finally:
                _remove(aside)
    return place


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _base(environ: Mapping[str, str], ours: str, desktop: str, under_home: str) -> Path:
    root = environ.get(ours) or environ.get(desktop) or Path.home() / under_home
    return Path(root).resolve() / "surgekit"
