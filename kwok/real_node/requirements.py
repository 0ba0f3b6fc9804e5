"""What a real node needs of this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from kwok.network.namespaces import why_no_namespace

__all__ = ["CNI_PLUGINS", "SEARCH_PATH", "why_no_real_node"]

# Debian installs some of them in a directory of root's PATH.
SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
CNI_PLUGINS = Path("/usr/lib/cni")
# Program -> Debian package.
_PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
}


def why_no_real_node() -> str | None:
    """Why no real node can run on this machine; None if one can."""
    if reason := why_no_namespace():
        return reason
    for program, package in _PROGRAMS.items():
        if shutil.which(program, path=SEARCH_PATH) is None:
            return f"{program} is not on PATH: `apt-get install {package}`"
    if not (CNI_PLUGINS / "bridge").exists():
        return f"no CNI plugins in {CNI_PLUGINS}: `apt-get install containernetworking-plugins`"
    return None
