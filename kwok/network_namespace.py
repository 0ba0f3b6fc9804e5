"""The network namespace of a lab: what it is called, and its end.

Named after the lab's directory, so that whoever takes a lab down finds it even if its creator was killed
right after making it. Standard library only: every watchdog loads this. `kwok.traffic.network` makes one.
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
    """Labs of one name may live in several state directories: the whole path tells them apart."""
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]
    return _NAMESPACES / f"surgekit-{directory.name}-{digest}"


def remove_namespace(directory: Path) -> None:
    """Once nothing runs in it, the kernel lets it go with its name. Nothing to do where there is none."""
    path = namespace_path(directory)
    if path.exists():
        # Fails where its maker died before mounting it: then the file is all there is.
        ctypes.CDLL(None).umount2(os.fsencode(path), _MNT_DETACH)
        path.unlink(missing_ok=True)
