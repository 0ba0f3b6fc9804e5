"""The lab's directories: a cache that can be rebuilt, and the state of running labs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["cache_directory", "labs_directory"]


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Built binaries and the Go toolchain; safe to delete."""
    return _base(environ, "SURGEKIT_CACHE_DIR", "XDG_CACHE_HOME", ".cache")


def labs_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """One directory for each lab: its etcd, logs, pid files and kubeconfigs."""
    return _base(environ, "SURGEKIT_STATE_DIR", "XDG_STATE_HOME", ".local/state") / "labs"


def _base(environ: Mapping[str, str], ours: str, desktop: str, under_home: str) -> Path:
    root = environ.get(ours) or environ.get(desktop) or Path.home() / under_home
    return Path(root).resolve() / "surgekit"
