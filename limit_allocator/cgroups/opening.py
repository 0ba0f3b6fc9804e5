"""Open a container's files, of whichever version its cgroup is."""

from __future__ import annotations

from limit_allocator.cgroups.container import GONE, Container, Gone, is_gone
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy
from limit_allocator.cgroups.v1 import ContainerV1
from limit_allocator.cgroups.v2 import ContainerV2

__all__ = ["open_container"]


def open_container(hierarchy: Hierarchy, cgroup: ContainerCgroup) -> Container | Gone:
    """Open a container, to be read. `Originals.adopt` opens one to be limited.

    Raises OSError without the right to open its files, or without descriptors: it takes up to 13.
    """
    try:
        return (ContainerV2 if hierarchy.version == 2 else ContainerV1)(hierarchy, cgroup)
    except OSError as error:
        if is_gone(error):
            return GONE
        raise
