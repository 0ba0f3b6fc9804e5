"""Which containers of the node belong to opted-in pods, and have limits that can be moved.

A pod's sandbox has no limits, and neither has a container whose author gave it none: they are left alone. So
is one whose CPU period is not the usual 100 ms. The runtime makes a cgroup before it sets the limits (runc:
memory first, CPU last), so what has none is looked at again, ever more seldom.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import structlog

from limit_allocator.allocation.model import PERIOD_US
from limit_allocator.cgroups.container import Container, Cpu, Limits
from limit_allocator.cgroups.layout import ContainerCgroup, Finder, Hierarchy
from limit_allocator.cgroups.opening import open_container
from limit_allocator.cgroups.originals import Originals
from limit_allocator.wire.messages import Pod

__all__ = ["Discovery"]

log = structlog.get_logger(__name__)

_AGAIN_S, _LONGEST_S = 0.05, 30.0


@dataclass(slots=True)
class _Later:
    due_s: float
    wait_s: float = _AGAIN_S


class Discovery:
    def __init__(self, hierarchy: Hierarchy, originals: Originals) -> None:
        self._hierarchy, self._originals = hierarchy, originals
        self._finder = Finder(hierarchy)
        self._later: dict[str, _Later] = {}

    def look(
        self, pods: Mapping[str, Pod], held: Collection[str], now_s: float
    ) -> Iterator[tuple[Pod, Container, Limits]]:
        """New containers of these pods: adopted if they are to be limited, else opened to be read.

        `held` are paths of cgroups that are known.
        """
        if not pods:
            return
        there = self._finder.find()
        if len(self._later) > len(there):
            paths = {cgroup.path for cgroup in there}
            self._later = {path: later for path, later in self._later.items() if path in paths}
        for cgroup in there:
            if cgroup.path in held or (pod := pods.get(cgroup.pod_uid)) is None:
                continue
            later = self._later.get(cgroup.path)
            if later is not None and now_s < later.due_s:
                continue
            if taken := self._take(cgroup, pod.enforce):
                self._later.pop(cgroup.path, None)
                yield (pod, *taken)
            else:
                wait_s = min(2 * later.wait_s, _LONGEST_S) if later else _AGAIN_S
                self._later[cgroup.path] = _Later(now_s + wait_s, wait_s)

    def forget(self, cgroup: ContainerCgroup) -> None:
        """It has vanished; another one may be in its place."""
        self._later.pop(cgroup.path, None)
        self._finder.forget(cgroup)

    def _take(self, cgroup: ContainerCgroup, enforce: bool) -> tuple[Container, Limits] | None:
        try:
            # First without the journal: what is kept there too early would undo the runtime's limits.
            container = open_container(self._hierarchy, cgroup)
            if not isinstance(container, Container):
                return None
            limits = _limits(container)
            if limits and enforce:
                container.close()
                container = self._originals.adopt(cgroup)
                limits = container.original if isinstance(container, Container) else None
        except OSError as error:
            log.warning("container not opened", container=cgroup.container_id, error=str(error))
            return None
        if isinstance(container, Container):
            if limits:
                return container, limits
            container.close()
        return None


def _limits(container: Container) -> Limits | None:
    """A container's limits, if it has both and in the usual period."""
    limits, cpu = container.limits(), container.cpu()
    if not isinstance(limits, Limits) or not isinstance(cpu, Cpu) or cpu.period_us != PERIOD_US:
        return None
    return limits if limits.quota_us and limits.memory_bytes else None
