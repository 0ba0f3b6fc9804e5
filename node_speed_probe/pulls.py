"""Read image pulls from the kubelet's Events.

The texts come from the kubelet (pkg/kubelet/images/image_manager.go) and are not an API. A text that cannot
be read is no pull and no error.
"""

from __future__ import annotations

import re

from node_speed_probe.model import PullEnded, PullStarted
from surgekit.kube.pods import image_name

__all__ = ["duration_s", "pull_event"]

_STARTED = re.compile(r'Pulling image "([^"]+)"')
_PULLED = re.compile(
    r'Successfully pulled image "([^"]+)" in (\S+)'
    r"(?: \(\S+ including waiting\))?(?:\. Image size: (\d{1,18}) bytes)?"
)
_PRESENT = re.compile(r'Container image "([^"]+)" already present on machine')
# Go writes the micro sign (U+00B5).
_LONGEST_DURATION = 64
_UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|us|\u00b5s|ns|m|s)")


def duration_s(text: str) -> float | None:
    """Seconds of a Go duration such as "1m2.5s", or None if it is not one."""
    if len(text) > _LONGEST_DURATION:
        return None
    parts = list(_PART.finditer(text))
    if not parts or "".join(p.group() for p in parts) != text:
        return None
    return sum(float(p[1]) * _UNIT_S[p[2]] for p in parts)


def pull_event(reason: str, message: str, pod_uid: str, node: str) -> PullStarted | PullEnded | None:
    """The pull that an Event reports, or None."""
    if reason == "Pulling" and (found := _STARTED.match(message)):
        return PullStarted(pod_uid, image_name(found[1]))
    if reason != "Pulled":
        return None
    if found := _PRESENT.match(message):
        return PullEnded(pod_uid, image_name(found[1]), node)
    if found := _PULLED.match(message):
        size = int(found[3]) if found[3] else None
        return PullEnded(pod_uid, image_name(found[1]), node, duration_s(found[2]), size)
    return None
