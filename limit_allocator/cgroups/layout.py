"""Find the cgroups of a node's containers in the kubelet's layout.

We read the directories that the kubelet and the runtime make, and neither the CRI socket nor NRI. The agent
must write below /sys/fs/cgroup anyway, so the layout costs no further right. The CRI socket is root on the
node: whoever opens it can start a privileged container. NRI gives the same power over every container, has
to be switched on in containerd before 2.0, and stops pods from starting when a plugin hangs. The names have
been stable since Kubernetes 1.6, and they carry what joins them with the API: pod uid and container id. They
do not say which container is the pod's sandbox: its id is missing in `containerStatuses`.

A container's cgroup is the only kind that can be named here, so nothing can write a pod's or a QoS class's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["ContainerCgroup", "Finder", "Hierarchy", "find", "parse"]

# Static pods have an MD5 sum. systemd reads `-` as a level of slices, so the kubelet writes `_`.
_UID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}"
_SYSTEMD_UID = r"[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}|[0-9a-f]{32}"
_ID = r"[0-9a-f]{64}"
_QOS = r"burstable|besteffort"  # Guaranteed pods have no directory in between

# kubepods/burstable/pod<uid>/<id>; CRI-O writes crio-<id>. Its crio-conmon-<id> is no container.
_CGROUPFS = re.compile(rf"kubepods(?:/(?P<qos>{_QOS}))?/pod(?P<uid>{_UID})/(?:crio-)?(?P<id>{_ID})")
# kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/cri-containerd-<id>.scope, where
# systemd repeats a slice's parents in its name, and those of `--cgroup-root`.
_SYSTEMD = re.compile(
    rf"(?P<top>(?:[\w.]+-)*kubepods)\.slice/(?:(?P=top)-(?P<qos>{_QOS})\.slice/)?"
    rf"(?P=top)(?(qos)-(?P=qos))-pod(?P<uid>{_SYSTEMD_UID})\.slice/"
    rf"(?:cri-containerd|crio|docker)-(?P<id>{_ID})\.scope",
    re.ASCII,
)
_LONGEST = 1024  # of a path; the longest of ours has about 350 characters
_DEPTH = 4  # kubepods, QoS class, pod, container


@dataclass(frozen=True, slots=True)
class ContainerCgroup:
    """The cgroup of one container. No other cgroup can be named: the path is checked."""

    path: str  # below the kubelet's `--cgroup-root`
    pod_uid: str = field(init=False, compare=False)
    container_id: str = field(init=False, compare=False)
    qos: str = field(init=False, compare=False)  # as in the pod's status

    def __post_init__(self) -> None:
        match = _match(self.path)
        if match is None:
            raise ValueError(f"{self.path!r} is not the cgroup of a container")
        object.__setattr__(self, "pod_uid", match["uid"].replace("_", "-"))
        object.__setattr__(self, "container_id", match["id"])
        qos = {"burstable": "Burstable", "besteffort": "BestEffort"}.get(match["qos"] or "", "Guaranteed")
        object.__setattr__(self, "qos", qos)


def parse(path: str) -> ContainerCgroup | None:
    """The container whose cgroup this is, or None. Any text is allowed."""
    return ContainerCgroup(path) if _match(path) else None


def _match(path: str) -> re.Match[str] | None:
    if len(path) > _LONGEST:
        return None
    return _CGROUPFS.fullmatch(path) or _SYSTEMD.fullmatch(path)


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where the kernel's cgroups are mounted, and which part of them is the kubelet's."""

    mount: Path = Path("/sys/fs/cgroup")
    root: str = ""  # the kubelet's `--cgroup-root`, in the driver's spelling

    @property
    def version(self) -> int:
        """2 where all controllers are in one tree. A hybrid has them in v1's trees."""
        return 2 if (self.mount / "cgroup.controllers").exists() else 1

    def tree(self, controller: str) -> Path:
        """The part of a controller's tree that has kubepods in it."""
        if self.version == 2:
            return self.mount / self.root
        tree = self.mount / controller
        if not tree.exists() and controller in ("cpu", "cpuacct"):
            tree = self.mount / "cpu,cpuacct"
        return tree / self.root


@dataclass(frozen=True, slots=True)
class _Directory:
    links: int
    containers: tuple[ContainerCgroup, ...]
    leading: tuple[str, ...]  # to containers, perhaps


class Finder:
    """Finds containers again and again, in a fraction of the time that reading all directories takes.

    A cgroup's directory counts its children in its links, and is read again when they are more or fewer. If
    one container replaced another since the last time, `forget` the one that is gone.
    """

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._tree = str(hierarchy.tree("memory"))
        self._known: dict[str, _Directory] = {}

    def find(self) -> list[ContainerCgroup]:
        """All containers that have a cgroup now. Names that mean nothing to us are skipped."""
        return list(self._below("", _DEPTH))

    def directories(self) -> list[str]:
        """All that was read, below which containers can appear."""
        return [f"{self._tree}/{path}" for path in self._known]

    def forget(self, cgroup: ContainerCgroup) -> None:
        self._known.pop(cgroup.path.rpartition("/")[0], None)

    def _below(self, path: str, depth: int) -> Iterator[ContainerCgroup]:
        known = self._known.get(path)
        try:
            links = os.stat(
                f"{self._tree}/{path}"
            ).st_nlink  # before reading: what comes later is seen next time
            if known is None or known.links != links:
                known = self._known[path] = self._read(path, links, known)
        except OSError:  # gone, or not ours to read
            self._known.pop(path, None)
            return
        yield from known.containers
        for below in known.leading if depth > 1 else ():
            yield from self._below(below, depth - 1)

    def _read(self, path: str, links: int, before: _Directory | None) -> _Directory:
        """What a container makes below its own directory is not looked at."""
        with os.scandir(f"{self._tree}/{path}") as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        below = [f"{path}/{name}" if path else name for name in names]
        found = {path: parse(path) for path in below}
        leading = tuple(path for path in below if found[path] is None and "kubepods" in path)
        for gone in set(before.leading if before else ()) - set(leading):
            self._known.pop(gone, None)
        return _Directory(links, tuple(cgroup for cgroup in found.values() if cgroup), leading)


def find(hierarchy: Hierarchy) -> list[ContainerCgroup]:
    """All containers that have a cgroup now."""
    return Finder(hierarchy).find()
