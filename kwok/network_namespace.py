"""Name and remove the network namespace of a lab.

The name derives from the lab's directory, so that it can be found and removed even if its creator was
killed right after making it. Standard library only, because every watchdog loads this module.
`kwok.traffic.network` creates the namespace.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from pathlib import Path

__all__ = ["namespace_path", "remove_namespace"]

_NAMESPACES = Path("/run/netns")  # where iproute2 and HAProxy look
_MNT_DETACH = 2  # <sys/mount.h>


def namespace_path(directory: Path) -> Path:
    """The path of the namespace. The whole directory counts, since labs of one name may live in several
    state directories."""
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]
    return _NAMESPACES / f"surgekit-{directory.name}-{digest}"


def remove_namespace(directory: Path) -> None:
    """Remove the name, if it exists. The kernel frees the namespace when nothing runs in it any more."""
    path = namespace_path(directory)
    if path.exists():
        # Fails if its creator died before mounting it; then only the file exists.
        ctypes.CDLL(None).umount2(os.fsencode(path), _MNT_DETACH)
        path.unlink(missing_ok=True)
