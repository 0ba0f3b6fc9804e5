"""Images of instances: containerd's, in a namespace of our own.

The kubelet's garbage collection does not know that namespace. containerd keeps content and snapshots once for
all namespaces, so an image that the kubelet has costs nothing more. Its layers' directories are what
instances' root file systems are made of. `ctr` is called while preparing, never at a start.
"""

from __future__ import annotations

import asyncio
import os
import platform
import pty
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

import structlog

from burst_plane.agent.kernel import SEARCH_PATH, Child, run
from burst_plane.instance.chain import LayersError, chain_id, child_digest, diff_ids, layers
from burst_plane.instance.image import (
    Credentials,
    ImageConfig,
    ImageNameError,
    allowed,
    credentials,
    full_name,
    read_config,
)  # fmt: skip

__all__ = ["Image", "ImageFault", "Images"]

log = structlog.get_logger(__name__)

_ENVIRONMENT = {"PATH": SEARCH_PATH}
_NICENESS = 10
_LONGEST_MESSAGE = 300
_PULLS_AT_ONCE = 3
_KEPT_S = 24 * 3600.0  # longer than any invocation: their root file systems are made of its layers


class ImageFault(Exception):
    """An image that cannot be had; the message says why, and holds no credentials."""


@dataclass(frozen=True)
class Image:
    layers: tuple[str, ...]  # directories, the uppermost first
    config: ImageConfig


class Images:
    def __init__(
        self, socket: Path, namespace: str, kubelet_namespace: str, prefixes: Sequence[str], timeout_s: float
    ) -> None:
        self._ctr = ["ctr", "--address", str(socket), "--namespace"]
        self._namespace, self._kubelet_namespace = namespace, kubelet_namespace
        self._prefixes, self._timeout_s = prefixes, timeout_s
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by image
        self._pulling = asyncio.Semaphore(_PULLS_AT_ONCE)
        self._asked_s: dict[str, float] = {}

    async def get(self, name: str, pull_auth: str, always_pull: bool = False) -> Image:
        """Raise ImageFault. Without `always_pull`, pulls the image if nothing else helps."""
        try:
            full = full_name(name)
        except ImageNameError as error:
            raise ImageFault(str(error)) from error
        if not allowed(full, self._prefixes):
            raise ImageFault(f"{full}: not one of allowed_images")
        self._asked_s[full] = asyncio.get_running_loop().time()
        lock = self._locks.setdefault(full, asyncio.Lock())
        async with lock:
            try:
                return await self._fetch(full, credentials(pull_auth, full), always_pull)
            except (LayersError, OSError) as error:
                raise ImageFault(f"{full}: {error}") from error

    async def clean(self, names: Iterable[str], kept_s: float = _KEPT_S) -> None:
        """Remove what is none of `names`, nor was of late: nobody else does. Raise ImageFault."""
        now_s = asyncio.get_running_loop().time()
        kept = set[str]()
        for name in names:
            with suppress(ImageNameError):
                kept.add(full_name(name))
        for full in kept:
            self._asked_s[full] = now_s
        kept |= {full for full, asked_s in self._asked_s.items() if now_s - asked_s < kept_s}
        if any(lock.locked() for lock in self._locks.values()):
            return  # not while one is fetched
        self._asked_s = {full: s for full, s in self._asked_s.items() if full in kept}
        listed = await self._run(self._namespace, "images", "ls", "--quiet")
        for full in set(listed.decode(errors="replace").split()) - kept:
            log.info("image removed", image=full)
            await self._try(self._namespace, "images", "rm", full)

    async def _fetch(self, full: str, using: Credentials | None, always_pull: bool) -> Image:
        there = not always_pull and (await self._digest(self._namespace, full) or await self._copy(full))
        if not there:
            async with self._pulling:
                await self._pull(full, using)
        digest, is_config = await self._digest(self._namespace, full), False
        if not digest:
            raise ImageFault(f"{full}: containerd has no image of this name")
        target = digest
        while not is_config:
            digest, is_config = child_digest(await self._content(digest), platform.machine())
        config = await self._content(digest)
        chain = chain_id(diff_ids(config))
        return Image(await self._layers(full, chain, target), read_config(config))

    async def _digest(self, namespace: str, full: str) -> str:
        """Of the image's index or manifest; empty if it is not there."""
        listed = await self._run(namespace, "images", "ls", f"name=={full}")
        rows = [line.split() for line in listed.decode(errors="replace").splitlines()[1:]]
        return next((row[2] for row in rows if len(row) > 2 and row[0] == full), "")

    async def _copy(self, full: str) -> bool:
        """Take it from the kubelet's namespace, as the kubelet would for a pod with IfNotPresent."""
        if not self._kubelet_namespace or not await self._digest(self._kubelet_namespace, full):
            return False
        # Through a pipe: a file in memory would count as the agent's, and an image may be larger than it.
        reader, writer = os.pipe()
        try:
            children = [
                Child.start(
                    [*self._ctr, self._kubelet_namespace, "images", "export", "-", full],
                    (_null(), writer, _null()), _ENVIRONMENT, _NICENESS,
                ),
                Child.start(
                    [*self._ctr, self._namespace, "images", "import", "-"],
                    (reader, _null(), _null()), _ENVIRONMENT, _NICENESS,
                ),
            ]  # fmt: skip
        finally:
            os.close(reader)
            os.close(writer)
        try:
            async with asyncio.timeout(self._timeout_s):
                codes = await asyncio.gather(*(asyncio.shield(child.ended) for child in children))
        except TimeoutError:
            for child in children:
                child.kill()
            return False
        return codes == [0, 0]

    async def _pull(self, full: str, using: Credentials | None) -> None:
        arguments = ["images", "pull", full]
        if using is None:
            await self._run(self._namespace, *arguments, timeout_s=self._timeout_s)
        else:
            await self._pull_as(using, full)

    async def _pull_as(self, using: Credentials, full: str) -> None:
        """The password goes in by a terminal: everybody may read a process's arguments."""
        ours, theirs = pty.openpty()
        try:
            argv = [*self._ctr, self._namespace, "images", "pull", "--user", using.user, full]
            child = Child.start(argv, (theirs, theirs, theirs), _ENVIRONMENT, _NICENESS)
            os.write(ours, f"{using.password}\n".encode())
            loop = asyncio.get_running_loop()
            os.set_blocking(ours, False)
            loop.add_reader(ours, _drain, ours)
            try:
                code = await asyncio.wait_for(asyncio.shield(child.ended), self._timeout_s)
            except TimeoutError:
                child.kill()
                code = -1
            finally:
                loop.remove_reader(ours)
        finally:
            os.close(ours)
            os.close(theirs)
        if code != 0:
            raise ImageFault(f"{full}: cannot be pulled with the pull secret's credentials")

    async def _layers(self, full: str, chain: str, target: str) -> tuple[str, ...]:
        """From a view that is not kept: its layers stay for as long as the image does."""
        view = f"{self._namespace}-{secrets.token_hex(8)}"
        # One command makes it and prints its mount: containerd's garbage collection may take it at once.
        command = ["snapshots", "view", "--target", "/", view, chain]
        mounts = await self._try(self._namespace, *command)
        if mounts is None:
            await self._run(self._namespace, "snapshots", "unpack", target, timeout_s=self._timeout_s)
            mounts = await self._run(self._namespace, *command)
        await self._try(self._namespace, "snapshots", "rm", view)
        found = layers(mounts.decode(errors="replace"))
        if missing := next((each for each in found if not Path(each).is_dir()), None):
            raise ImageFault(f"{full}: containerd's directory {missing} cannot be seen by the agent")
        return found

    async def _content(self, digest: str) -> bytes:
        return await self._run(self._namespace, "content", "get", digest)

    async def _try(self, namespace: str, *arguments: str) -> bytes | None:
        with suppress(ImageFault):
            return await self._run(namespace, *arguments)
        return None

    async def _run(self, namespace: str, *arguments: str, timeout_s: float = 30.0) -> bytes:
        argv = [*self._ctr, namespace, *arguments]
        try:
            code, out, err = await run(
                argv, environment=_ENVIRONMENT, timeout_s=timeout_s, niceness=_NICENESS
            )
        except OSError as error:
            raise ImageFault(f"ctr: {error}") from error
        if code != 0:
            said = err.decode(errors="replace").strip()[-_LONGEST_MESSAGE:]
            raise ImageFault(f"containerd, {' '.join(arguments[:2])}: {said}")
        return out


def _drain(descriptor: int) -> None:
    with suppress(OSError):
        os.read(descriptor, 65536)


_nothing = -1


def _null() -> int:
    global _nothing  # noqa: PLW0603  (one descriptor of /dev/null for the process)
    if _nothing < 0:
        _nothing = os.open(os.devnull, os.O_RDWR)
    return _nothing
