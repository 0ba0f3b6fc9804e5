"""One container from its making to its removal: root file system, bundle, process, output."""

from __future__ import annotations

import asyncio
import errno
import os
import platform
import shutil
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from burst_plane.agent.cgroups import Cgroups
from burst_plane.agent.images import Image
from burst_plane.agent.kernel import MS_NODEV, MS_NOSUID, Child, mount, mount_overlay, unmount
from burst_plane.agent.logs import Logs, Output
from burst_plane.agent.networks import Network
from burst_plane.agent.runtime import Runtime, RuntimeFault
from burst_plane.instance.connections import connected
from burst_plane.instance.oci_spec import Place, oci_spec
from burst_plane.instance.readiness import Kind
from burst_plane.instance.resolvers import resolv_conf
from burst_plane.model import Function, InstanceSpec

__all__ = ["Container", "ContainerFault", "ImageLostError", "Workshop"]

log = structlog.get_logger(__name__)

_INODES = 65_536  # of a scratch: as bounded as its bytes
_TABLE_BYTES = 64 << 10  # of connections: an instance with more than 400 is in use
_FREEZE_S = 2.0
_ENDED_S = 10.0
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.0005, 0.01  # at the port


class ContainerFault(Exception):
    """A container that cannot be made or started."""


class ImageLostError(ContainerFault):
    """The directories of its image are gone: it must be looked for again."""


@dataclass(eq=False)
class Container:
    name: str
    function: Function
    spec: InstanceSpec
    network: Network
    kind: Kind
    output: Output
    process: Child


class Workshop:
    """Makes, starts and removes containers. Everything lies below `directory`, by name."""

    def __init__(
        self, directory: Path, runtime: Runtime, cgroups: Cgroups, logs: Logs, nameservers: tuple[str, ...],
        cluster_domain: str,
    ) -> None:  # fmt: skip
        self._directory = directory / "instances"
        self._runtime, self._cgroups, self._logs = runtime, cgroups, logs
        self._nameservers, self._cluster_domain = nameservers, cluster_domain

    def begin(self) -> None:
        """Remove what an earlier agent left. Blocks. Raise OSError."""
        self._cgroups.end()
        if self._directory.is_dir():
            for place in self._directory.iterdir():
                self._remove_files(place.name)
        self._directory.mkdir(parents=True, exist_ok=True)

    async def make(
        self,
        name: str,
        function: Function,
        spec: InstanceSpec,
        image: Image,
        network: Network,
        on_end: Callable[[str], None],
    ) -> Container:
        """A container whose first process waits. Raise ContainerFault; then nothing is left of it."""
        try:
            bundle = await asyncio.to_thread(self._lay_out, name, function.namespace, spec, image, network)
        except (OSError, ValueError, KeyError) as error:
            await asyncio.to_thread(self._remove_files, name)
            lost = not all(os.path.isdir(layer) for layer in image.layers)
            raise (ImageLostError if lost else ContainerFault)(f"bundle: {error}") from error
        output = self._logs.output(function)
        try:
            pid = await self._runtime.create(name, bundle, output.writers)
            process = Child(pid, lambda: on_end(name))
        except (RuntimeFault, OSError, ValueError) as error:
            output.given()
            output.close()
            await asyncio.to_thread(self._remove_left, name)
            raise ContainerFault(str(error)) from error
        output.given()
        (bundle / "config.json").unlink(missing_ok=True)  # it holds Secrets, and is not read again
        return Container(name, function, spec, network, Kind.CREATED, output, process)

    async def start(self, container: Container, deadline_s: float) -> None:
        """Let it run and wait until its port is open. Raise ContainerFault, or TimeoutError."""
        try:
            await self._runtime.start(container.name)
        except RuntimeFault as error:
            raise ContainerFault(str(error)) from error
        await self._await_port(container, deadline_s)

    async def freeze(self, container: Container) -> None:
        """Raise ContainerFault."""
        try:
            self._cgroups.freeze(container.name)
            deadline_s = asyncio.get_running_loop().time() + _FREEZE_S
            while not self._cgroups.frozen(container.name):
                if asyncio.get_running_loop().time() > deadline_s:
                    raise ContainerFault("does not freeze")
                await asyncio.sleep(0.005)
        except OSError as error:
            raise ContainerFault(f"freeze: {error}") from error
        container.kind = Kind.FROZEN

    def thaw(self, container: Container) -> None:
        """Raise ContainerFault."""
        try:
            self._cgroups.thaw(container.name)
        except OSError as error:
            raise ContainerFault(f"thaw: {error}") from error

    def connected(self, container: Container) -> bool:
        """Whether a client is connected. In doubt yes."""
        for table in ("tcp", "tcp6"):  # IPv4's, too, is in tcp6 if the process listens for both
            try:
                with open(f"/proc/{container.process.pid}/net/{table}", "rb") as file:
                    content = file.read(_TABLE_BYTES)
            except OSError:
                continue
            if len(content) == _TABLE_BYTES or connected(content, container.spec.port):
                return True
        return False

    def memory_bytes(self, container: Container) -> int:
        return self._cgroups.memory_bytes(container.name)

    async def remove(self, container: Container) -> None:
        """Kill it and remove all but its network."""
        container.process.kill()
        self._cgroups.kill(container.name)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(container.process.ended), _ENDED_S)
        container.output.close()
        try:
            await asyncio.to_thread(self._remove_left, container.name)
        except OSError as error:
            log.error("instance not removed", instance=container.name, error=str(error))

    async def _await_port(self, container: Container, deadline_s: float) -> None:
        """Connect until it is accepted: the kernel answers for a process that listens, whatever it does."""
        look_s, address = _FIRST_LOOK_S, (container.network.address, container.spec.port)
        while not _accepts(address):
            if container.process.ended.done():
                raise ContainerFault(f"its process ended with code {container.process.ended.result()}")
            if asyncio.get_running_loop().time() + look_s > deadline_s:
                raise TimeoutError
            await asyncio.sleep(look_s)
            look_s = min(look_s * 1.15, _LONGEST_LOOK_S)

    def _lay_out(self, name: str, namespace: str, spec: InstanceSpec, image: Image, network: Network) -> Path:
        place = self._directory / name
        scratch, root = place / "scratch", place / "root"
        for directory in (scratch, root):
            directory.mkdir(parents=True)
        options = f"size={max(spec.scratch_bytes, 1 << 20)},nr_inodes={_INODES},mode=0755"
        mount("tmpfs", scratch, "tmpfs", MS_NOSUID | MS_NODEV, options)
        for part, mode in (("upper", 0o755), ("work", 0o700), ("tmp", 0o1777)):
            (scratch / part).mkdir()
            (scratch / part).chmod(mode)
        mount_overlay(root, image.layers, scratch / "upper", scratch / "work")
        resolvers = resolv_conf(self._nameservers, namespace, self._cluster_domain)
        hosts = f"127.0.0.1\tlocalhost\n{network.address}\t{name}\n"
        files = {"/etc/resolv.conf": resolvers, "/etc/hosts": hosts, "/etc/hostname": f"{name}\n"}
        bound = []
        for path, content in files.items():
            file = place / path.rpartition("/")[2]
            file.write_text(content)
            bound.append((path, str(file)))
        described = oci_spec(
            spec, image.config,
            Place(
                root=str(root), network=str(network.path), cgroup=self._cgroups.path(name), hostname=name,
                temporary=str(scratch / "tmp"), files=tuple(bound),
            ),
            platform.machine(), self._cgroups.accounts_for_swap,
        )  # fmt: skip
        configuration = place / "config.json"
        configuration.touch(mode=0o600)  # it holds Secrets
        configuration.write_bytes(msgspec.json.encode(described))
        return place

    def _remove_left(self, name: str) -> None:
        """Raise OSError if processes do not end."""
        self._cgroups.remove(name)
        self._remove_files(name)

    def _remove_files(self, name: str) -> None:
        self._runtime.delete(name)
        place = self._directory / name
        for mounted in ("root", "scratch"):
            with suppress(OSError):
                unmount(place / mounted)
        shutil.rmtree(place, ignore_errors=True)


def _accepts(address: tuple[str, int]) -> bool:
    """Whether a connection is taken at once. On the node's own links it is when connect(2) returns."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as connection:
        failed = connection.connect_ex(address)
        if failed == errno.EINPROGRESS:
            try:
                connection.getpeername()
            except OSError:
                return False
            return True
        return failed == 0
