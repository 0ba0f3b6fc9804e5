"""Calls of Linux that Python 3.11 lacks: mounts, namespaces, processes that the loop waits for."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

__all__ = [
    "MS_BIND", "MS_NODEV", "MS_NOEXEC", "MS_NOSUID", "MS_RDONLY", "MS_REMOUNT", "SEARCH_PATH", "Child",
    "announce", "become_subreaper", "bring_up", "make_network_namespace", "mount", "mount_overlay",
    "reap_others", "run", "unmount",
]  # fmt: skip

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 32, 4096  # <sys/mount.h>
_MNT_DETACH = 2
_CLONE_NEWNET, _CLONE_FS = 0x40000000, 0x200
_LONGEST_OPTIONS = 4096  # with the zero byte: a page, of which x86 and most others have no smaller one
_PR_SET_CHILD_SUBREAPER = 36
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_ETH_P_ARP = 0x0806
_OUTPUT_BYTES = 1 << 20  # of a command
_OURS = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them, and what it starts would, too

# Debian installs some of what we run in a directory of root's PATH.
SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", "/usr/bin:/bin"), "/usr/sbin", "/sbin"))

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str | Path, kind: str, flags: int = 0, data: str = "") -> None:
    arguments = (source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode())
    _check(_libc.mount(*arguments), f"mount {kind} at {target}")


def mount_overlay(target: Path, lower: Sequence[str], upper: Path, work: Path) -> None:
    """`lower`: the uppermost first. The kernel takes one page of options, and cuts off what is longer. So
    paths of many layers are given from the directory that they share, as containerd does."""
    tail = f",upperdir={upper},workdir={work}"
    options = f"lowerdir={':'.join(lower)}{tail}"
    if len(os.fsencode(options)) < _LONGEST_OPTIONS:
        mount("overlay", target, "overlay", MS_NODEV, options)
        return
    shared = os.path.commonpath(lower)
    options = f"lowerdir={':'.join(os.path.relpath(each, shared) for each in lower)}{tail}"
    if len(os.fsencode(options)) >= _LONGEST_OPTIONS:
        raise OSError(errno.E2BIG, f"mount overlay: {len(lower)} layers are too many")
    _check(_libc.unshare(_CLONE_FS), "unshare")  # from now on this thread has a working directory of its own
    os.chdir(shared)
    try:
        mount("overlay", target, "overlay", MS_NODEV, options)
    finally:
        os.chdir("/")


def unmount(target: str | Path) -> None:
    """At once, even if it is in use. Nothing to do if nothing is mounted there."""
    if _libc.umount2(os.fsencode(target), _MNT_DETACH) != 0:
        number = ctypes.get_errno()
        if number not in (errno.EINVAL, errno.ENOENT):
            raise OSError(number, f"unmount {target}: {os.strerror(number)}")


def become_subreaper() -> None:
    """Containers' processes whose parent ended become ours, so that we see them end."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def make_network_namespace(path: Path, prepare: Callable[[], None]) -> None:
    """Make a namespace that lives as long as `path` is mounted; run `prepare` in it."""
    path.touch()
    with open("/proc/thread-self/ns/net", "rb") as own:
        _check(_libc.unshare(_CLONE_NEWNET), "unshare")
        try:
            mount("/proc/thread-self/ns/net", path, "none", MS_BIND)
            prepare()
        finally:
            _check(_libc.setns(own.fileno(), _CLONE_NEWNET), "setns back")


def bring_up(link: str) -> None:
    """In this thread's network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH22x", link.encode(), 0)
        (flags,) = struct.unpack_from("16xH", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH22x", link.encode(), flags | _IFF_UP))


def announce(network: Path, link: str, address: str) -> None:
    """Tell neighbours of a network namespace which hardware address has this IPv4 address now (RFC 5227)."""
    with open("/proc/thread-self/ns/net", "rb") as own, open(network, "rb") as other:
        _check(_libc.setns(other.fileno(), _CLONE_NEWNET), f"setns {network}")
        try:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
                raw.bind((link, _ETH_P_ARP))
                hardware, internet = raw.getsockname()[4], socket.inet_aton(address)
                ethernet = b"\xff" * 6 + hardware + struct.pack("!H", _ETH_P_ARP)
                arp = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + hardware + internet + bytes(6) + internet
                raw.send(ethernet + arp)
        finally:
            _check(_libc.setns(own.fileno(), _CLONE_NEWNET), "setns back")


_children: set[int] = set()  # of which the loop is told


def reap_others() -> None:
    """Let go of what ended and is nobody's: a subreaper gets the orphans of commands that were killed."""
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in _children:
                return  # the loop is about to; others come next time
            os.waitpid(ended.si_pid, os.WNOHANG)


class Child:
    """A process whose end the loop notices. Also one that a command left to us, the subreaper."""

    def __init__(self, pid: int, on_end: Callable[[], None] = lambda: None) -> None:
        """Raise ProcessLookupError."""
        self.pid, self._on_end = pid, on_end
        self._loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(pid)
        _children.add(pid)
        self.ended: asyncio.Future[int] = self._loop.create_future()  # exit code, or -signal
        self._loop.add_reader(self._pidfd, self._reap)

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        stdio: tuple[int, int, int],
        environment: Mapping[str, str],
        niceness: int = 0,
    ) -> Child:
        """Raise OSError. `stdio` are descriptors for the child's 0, 1 and 2; it gets no others."""
        actions = [(os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in enumerate(stdio)]
        pid = os.posix_spawnp(
            argv[0], list(argv), dict(environment), file_actions=actions, setsid=True, setsigdef=_OURS
        )
        if niceness:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, pid, niceness)
        return cls(pid)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            if not self.ended.done():
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _reap(self) -> None:
        code = 0
        with suppress(ChildProcessError):  # not ours: only its end is known
            status = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG)
            if status is None:
                return
            code = status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
        _children.discard(self.pid)
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if not self.ended.done():
            self.ended.set_result(code)
        self._on_end()


async def run(
    argv: Sequence[str], *, stdin: bytes = b"", environment: Mapping[str, str] | None = None,
    timeout_s: float = 60.0, niceness: int = 0,
) -> tuple[int, bytes, bytes]:  # fmt: skip
    """Run a command to its end: exit code, and the first MiB of standard output and of standard error."""
    given, out, err = _file(stdin), _file(), _file()
    try:
        child = Child.start(argv, (given, out, err), environment or {"PATH": SEARCH_PATH}, niceness)
        try:
            code = await asyncio.wait_for(asyncio.shield(child.ended), timeout_s)
        except TimeoutError:
            child.kill()
            await child.ended
            return -signal.SIGKILL, b"", f"took longer than {timeout_s:g} s".encode()
        return code, os.pread(out, _OUTPUT_BYTES, 0), os.pread(err, _OUTPUT_BYTES, 0)
    finally:
        for descriptor in (given, out, err):
            os.close(descriptor)


def _file(content: bytes = b"") -> int:
    """A file in memory: a command can neither block on it nor need a thread of ours."""
    descriptor = os.memfd_create("surgekit")
    if content:
        os.pwrite(descriptor, content, 0)
    return descriptor
