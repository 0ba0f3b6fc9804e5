"""Name, enter and remove the network namespaces of a lab.

The names derive from the lab's directory, so that they can be found and removed even if their creator was
killed right after making them. Standard library only, because every watchdog loads this module.
`kwok.network` creates the namespaces.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from pathlib import Path

__all__ = [
    "CONTROL_PLANE", "EMULATED_PODS", "directory_digest", "entering", "has_network",
    "namespace_path", "remove_namespaces",
]  # fmt: skip

_NAMESPACES = Path("/run/netns")  # where iproute2 and HAProxy look
_MNT_DETACH = 2  # <sys/mount.h>
# The roles: who answers for emulated pods; where everything else runs, in a lab with a network of its own.
EMULATED_PODS, CONTROL_PLANE = "pods", "lab"


def directory_digest(directory: Path) -> str:
    """Tells labs apart on one machine. The whole directory counts, since labs of one name may live in several
    state directories."""
    return hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]


def namespace_path(directory: Path, role: str) -> Path:
    return _NAMESPACES / f"surgekit-{directory.name}-{directory_digest(directory)}-{role}"


def has_network(directory: Path) -> bool:
    """Whether the lab in `directory` has a network of its own, which real nodes may join."""
    return namespace_path(directory, CONTROL_PLANE).exists()


def entering(directory: Path) -> list[str]:
    """What to put before a command so that it runs in the lab's network, if the lab has its own."""
    path = namespace_path(directory, CONTROL_PLANE)
    return ["nsenter", f"--net={path}"] if has_network(directory) else []


def remove_namespaces(directory: Path) -> None:
    """Remove the names that exist. The kernel frees a namespace, with its links and rules, when nothing runs
    in it any more."""
    for path in _NAMESPACES.glob(namespace_path(directory, "*").name):
        # Fails if its creator died before mounting it; then only the file exists.
        ctypes.CDLL(None).umount2(os.fsencode(path), _MNT_DETACH)
        path.unlink(missing_ok=True)
