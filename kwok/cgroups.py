"""Name and remove the control groups of a lab's real nodes.

Standard library only, because every watchdog loads this module. Both kinds of cgroups are handled: a tree for
each controller (v1), or one for all (v2).
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from kwok.network_namespace import directory_digest

__all__ = ["cgroup_name", "make_cgroups", "remove_cgroups", "trees"]

_ROOT = Path("/sys/fs/cgroup")
_PATIENCE_S = 10.0  # a killed process leaves its group a moment later
_CONTROLLERS = ("cpu", "cpuset", "memory", "pids")


def cgroup_name(directory: Path) -> str:
    """The group that holds all others of the lab in `directory`."""
    return f"surgekit-{directory_digest(directory)}"


def trees() -> list[Path]:
    """The roots of all trees."""
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return [path for path in sorted(_ROOT.glob("*")) if path.is_dir() and not path.is_symlink()]


def make_cgroups(directory: Path, name: str) -> str:
    """Create a group of the lab in every tree; its path, as a kubelet names it."""
    for tree in trees():
        group = tree / cgroup_name(directory) / name
        group.mkdir(parents=True, exist_ok=True)
        if tree == _ROOT:  # in v2, a group hands its controllers down only when told to
            for above in (tree, group.parent, group):
                for controller in _CONTROLLERS:
                    with suppress(OSError):
                        (above / "cgroup.subtree_control").write_text(f"+{controller}")
    return f"/{cgroup_name(directory)}/{name}"


def remove_cgroups(directory: Path) -> None:
    """Remove the groups of the lab in `directory`, whose processes are dead."""
    deadline_s = time.monotonic() + _PATIENCE_S
    for tree in trees() if _ROOT.is_dir() else ():
        root = tree / cgroup_name(directory)
        while root.exists() and time.monotonic() < deadline_s:
            for group, _, _ in os.walk(root, topdown=False):
                with suppress(OSError):  # still in use: tried again
                    os.rmdir(group)
            if root.exists():
                time.sleep(0.05)
