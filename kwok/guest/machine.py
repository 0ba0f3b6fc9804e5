"""Run a command in a guest."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from kwok.errors import LabError
from kwok.guest.initramfs import interpreter, pack
from kwok.guest.requirements import BUSYBOX, QEMU, packages

__all__ = ["Ended", "run"]

_BEGIN, _END = "----- command begins", "----- command ended with"
_INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/ PYTHONDONTWRITEBYTECODE=1
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup /sys/fs/cgroup
ip link set lo up
echo '{begin}'
cd /
{command}
echo '{end}' $?
reboot -f
"""


@dataclass(frozen=True, slots=True)
class Ended:
    status: int
    output: str


def run(
    files: Mapping[str, Path | bytes],
    command: Sequence[str],
    timeout_s: float = 240.0,
    memory_mib: int = 1024,
    cores: int = 1,
    cpu: str = "qemu64",
) -> Ended:
    """Run a command as root in a new guest with cgroup v2, this Python, and `files` by their paths there.

    Whatever it writes in the guest is lost, except its output.
    """
    root = packages()
    init = _INIT.format(begin=_BEGIN, end=_END, command=shlex.join(command)).encode()
    empty = {f"{directory}/.keep": b"" for directory in ("proc", "sys", "dev", "tmp")}
    content: dict[str, Path | bytes] = {
        **interpreter(),
        **empty,
        **files,
        "init": init,
        BUSYBOX: root / BUSYBOX,
    }
    with TemporaryDirectory(prefix="surgekit-guest-") as directory:
        initramfs = Path(directory, "initramfs.gz")
        initramfs.write_bytes(pack(content))
        argv = [
            QEMU, "-accel", "tcg", "-M", "pc", "-cpu", cpu, "-smp", str(cores), "-m", str(memory_mib),
            "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot",
            "-kernel", str(next(root.glob("boot/vmlinuz-*"))), "-initrd", str(initramfs),
            "-append", "console=ttyS0 quiet panic=-1 psi=1 mitigations=off",
        ]  # fmt: skip
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
                timeout=timeout_s,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            said = (error.stdout or b"").decode(errors="replace") if isinstance(error.stdout, bytes) else ""
            raise LabError(f"guest: no end after {timeout_s:.0f} s; it said:\n{said[-2000:]}") from error
    said = done.stdout.replace("\r", "")
    parts = re.search(rf"{_BEGIN}\n(.*){_END} (\d+)", said, re.DOTALL)
    if parts is None:
        raise LabError(f"guest: the command did not end; it said:\n{said[-2000:]}{done.stderr[-1000:]}")
    return Ended(int(parts[2]), parts[1])
