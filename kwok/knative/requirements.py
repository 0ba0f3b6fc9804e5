"""What Knative in a lab needs of this machine."""

from __future__ import annotations

import shutil

from kwok.network.namespaces import why_no_namespace
from kwok.real_node.requirements import SEARCH_PATH

__all__ = ["why_no_knative"]

# Program -> Debian package. kube-proxy calls iptables.
_PROGRAMS = {"iptables": "iptables", "nsenter": "util-linux", "unshare": "util-linux", "mount": "mount"}


def why_no_knative() -> str | None:
    """Why it cannot run on this machine; None if it can."""
    if reason := why_no_namespace():
        return reason
    for program, package in _PROGRAMS.items():
        if shutil.which(program, path=SEARCH_PATH) is None:
            return f"{program} is not on PATH: `apt-get install {package}`"
    return None
