"""A part of this machine's cgroup v1 tree for each test, removed afterwards."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from limit_allocator.cgroups.container import Container
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy
from limit_allocator.cgroups.originals import Originals
from tests.limit_allocator.cgroups.node import Node


def why_no_v1() -> str | None:
    if os.geteuid() != 0:
        return "only root makes cgroups"
    mount = Path("/sys/fs/cgroup")
    missing = [name for name in ("cpu", "cpuacct", "memory") if not (mount / name / "cgroup.procs").exists()]
    return f"no cgroup v1 tree of {', '.join(missing)}" if missing else None


@pytest.fixture
def node() -> Iterator[Node]:
    if reason := why_no_v1():
        pytest.skip(reason)
    node = Node(Hierarchy(root=f"surgekit-test-{secrets.token_hex(4)}"))
    yield node
    node.close()


@pytest.fixture
def originals(node: Node, tmp_path: Path) -> Originals:
    return Originals(tmp_path / "journal", node.hierarchy)


@pytest.fixture
def adopt(originals: Originals) -> Iterator[Callable[[ContainerCgroup], Container]]:
    """Adopts containers; closed after the test."""
    adopted: list[Container] = []

    def adopt(cgroup: ContainerCgroup) -> Container:
        container = originals.adopt(cgroup)
        assert isinstance(container, Container)
        adopted.append(container)
        return container

    yield adopt
    for container in adopted:
        container.close()
