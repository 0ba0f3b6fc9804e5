"""Keep the limits that containers had before us, and write them back.

The journal is a directory on tmpfs with one small file for each container. A file is written before the
container's first change, so the next agent can undo what a killed one left. A reboot removes the journal
together with the cgroups. Files appear whole (rename). One that cannot be read is ignored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from limit_allocator.cgroups.container import GONE, WRITTEN, Container, Gone, Limits, Refused, Result
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy, parse
from limit_allocator.cgroups.opening import open_container

__all__ = ["Originals"]

_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class Originals:
    """The journal. Only one agent may use a directory at a time (`guard.hold`)."""

    directory: Path
    hierarchy: Hierarchy

    def adopt(self, cgroup: ContainerCgroup) -> Container | Gone:
        """Open a container so that it can be limited. From now on the journal has its original limits.

        Limits that are there already stay: what the container has now may come from a killed agent. Raises
        OSError if files cannot be opened or the journal cannot be written.
        """
        container = open_container(self.hierarchy, cgroup)
        if isinstance(container, Gone):
            return GONE
        original = self.read(cgroup) or container.limits()
        try:
            if not isinstance(original, Gone):
                self.amend(container, original)
                return container
        except OSError:
            container.close()
            raise
        container.close()
        return GONE

    def amend(self, container: Container, original: Limits) -> None:
        """Write these limits back at the end: the pod's spec has changed."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self._file(container.cgroup)
        aside = file.with_suffix(".part")
        aside.write_text(json.dumps({"path": container.cgroup.path} | asdict(original)))
        aside.replace(file)
        container.original = original

    def write_back(self, container: Container) -> Result:
        """Restore a container's limits. If the kernel refuses, the journal keeps them for another try."""
        if container.original is None:
            return WRITTEN
        result = container.write_back(container.original)
        if not isinstance(result, Refused):
            self.drop(container.cgroup)
        return result

    def write_back_all(self) -> dict[ContainerCgroup, Result]:
        """Restore all containers in the journal: a new agent's first step."""
        for half_written in self.directory.glob("*.part"):
            half_written.unlink(missing_ok=True)
        return self._each(self.write_back)

    def disarm_all(self) -> dict[ContainerCgroup, Result]:
        """Leave the limits, and let the kernel kill at them again: the guard's step."""
        return self._each(
            lambda container: container.disarm(container.original) if container.original else GONE
        )

    def kept(self) -> dict[ContainerCgroup, Limits]:
        """All that can be read in the journal."""
        try:
            names = sorted(os.listdir(self.directory))
        except OSError:
            return {}
        entries = (_load(self.directory / name) for name in names if name.endswith(_SUFFIX))
        return dict(entry for entry in entries if entry)

    def read(self, cgroup: ContainerCgroup) -> Limits | None:
        entry = _load(self._file(cgroup))
        return entry[1] if entry and entry[0] == cgroup else None

    def drop(self, cgroup: ContainerCgroup) -> None:
        self._file(cgroup).unlink(missing_ok=True)

    def _each(self, step: Callable[[Container], Result]) -> dict[ContainerCgroup, Result]:
        """One container's trouble does not keep the others from their step."""
        results: dict[ContainerCgroup, Result] = {}
        for cgroup, original in self.kept().items():
            try:
                container = open_container(self.hierarchy, cgroup)
            except OSError as error:
                results[cgroup] = Refused(error.errno or 0, "open")
                continue
            if isinstance(container, Gone):
                self.drop(cgroup)
                results[cgroup] = GONE
                continue
            container.original = original
            results[cgroup] = step(container)
            container.close()
        return results

    def _file(self, cgroup: ContainerCgroup) -> Path:
        return self.directory / f"{cgroup.container_id}{_SUFFIX}"


def _load(file: Path) -> tuple[ContainerCgroup, Limits] | None:
    """A file's content; None if it is missing, cut off, or not one of ours."""
    try:
        entry = json.loads(file.read_bytes())
        cgroup = parse(entry.pop("path"))
        limits = Limits(**entry)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    sound = all(
        value is None or (isinstance(value, int) and value >= 0)
        for value in (getattr(limits, f.name) for f in fields(limits))
    )
    complete = isinstance(limits.burst_us, int) and isinstance(limits.oom_kill_disable, bool)
    return (cgroup, limits) if cgroup and sound and complete else None
