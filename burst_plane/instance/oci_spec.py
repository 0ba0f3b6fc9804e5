"""The OCI spec of an emergency instance.

Everything that a tenant may choose comes from the InstanceSpec; the rest is fixed and strict. No host path is
mounted: what is bound into the container are files that the agent wrote for it.
https://github.com/opencontainers/runtime-spec/blob/v1.0.2/config.md
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Any

from burst_plane.instance.image import ImageConfig
from burst_plane.instance.seccomp import profile
from burst_plane.model import InstanceSpec

__all__ = ["CAPABILITIES", "Place", "SpecError", "oci_spec"]

_PERIOD_US = 100_000
_SMALLEST_QUOTA_US = 1_000  # the kernel's
_SHM_BYTES = 16 << 20
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What shows or changes the node, as runtimes hide it by default (moby's oci/defaults.go).
_MASKED = (
    "/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
    "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
    "/sys/devices/virtual/powercap", "/sys/firmware",
)  # fmt: skip
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
# What containerd and Docker give a plain container (moby's oci/caps/defaults.go), without NET_RAW: frames
# sent by AF_PACKET go around the rules of `firewall`, and may bear a neighbour's or gateway's address.
# The controller asks for no others; should it, no instance has more.
CAPABILITIES = frozenset(
    f"CAP_{name}"
    for name in (
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
        "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    )
)  # fmt: skip
_QUIET = ["nosuid", "noexec", "nodev"]


class SpecError(ValueError):
    """An instance that cannot be described."""


@dataclass(frozen=True)
class Place:
    """Where on the node an instance lives. All but `network` are paths that the agent made for it."""

    root: str  # its root file system, mounted
    network: str  # path of its network namespace
    cgroup: str  # as the runtime names it: below the mount of each hierarchy
    hostname: str
    temporary: str  # becomes /tmp
    files: tuple[tuple[str, str], ...] = ()  # path in the container -> file, read-only


def oci_spec(
    spec: InstanceSpec, image: ImageConfig, place: Place, machine: str, swap: bool
) -> dict[str, Any]:
    """Raise SpecError. `swap`: whether the kernel accounts for swap, which instances get none of."""
    security = spec.security
    return {
        "ociVersion": "1.0.2",
        "hostname": place.hostname,
        "root": {"path": place.root, "readonly": security.read_only_root},
        "process": {
            "terminal": False,
            "user": {
                "uid": security.uid, "gid": security.gid, "umask": 0o22,
                "additionalGids": list(security.groups),
            },
            "args": _arguments(spec, image),
            "env": _environment(spec, image, place.hostname),
            "cwd": _directory(spec.working_directory or image.working_directory or "/"),
            "noNewPrivileges": True,
            "capabilities": _capabilities(spec),
            "rlimits": [{"type": "RLIMIT_CORE", "soft": 0, "hard": 0}],
            "oomScoreAdj": 1000,  # before anything of the cluster's
        },
        "mounts": [*_kernel_mounts(), *_own_mounts(place)],
        "linux": {
            "namespaces": [
                {"type": "network", "path": place.network},
                *({"type": kind} for kind in ("pid", "ipc", "uts", "mount", "cgroup")),
            ],
            "cgroupsPath": place.cgroup,
            "resources": _resources(spec, swap),
            "maskedPaths": list(_MASKED),
            "readonlyPaths": list(_READ_ONLY),
            **({"seccomp": profile(machine, security.capabilities)} if security.seccomp else {}),
        },
    }  # fmt: skip


def _arguments(spec: InstanceSpec, image: ImageConfig) -> list[str]:
    """Kubernetes' rule: a command replaces the image's entrypoint and its arguments."""
    if spec.command:
        arguments = [*spec.command, *spec.args]
    else:
        arguments = [*image.entrypoint, *(spec.args or image.command)]
    if not arguments:
        raise SpecError("neither the pod nor its image says what to run")
    return [_text(each) for each in arguments]


def _text(text: str) -> str:
    """What the kernel takes as an argument or a variable."""
    if "\0" in text or not _is_utf8(text):
        raise SpecError("an argument, a variable or a path has a zero byte in it, or is not UTF-8")
    return text


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _directory(path: str) -> str:
    """Below /proc, a runtime with an open directory of the node would start the process there
    (CVE-2024-21626, fixed in runc 1.1.12)."""
    below = posixpath.normpath(path).lstrip("/").split("/")[0]  # two slashes at the beginning stay
    if not path.startswith("/") or below == "proc":
        raise SpecError(f"working directory {path[:80]!r}: not an absolute path outside /proc")
    return _text(path)


def _environment(spec: InstanceSpec, image: ImageConfig, hostname: str) -> list[str]:
    """The pod's variables over those of the image; of two with one name the last holds."""
    merged = dict(each.partition("=")[::2] for each in (_PATH, *image.env)) | {"HOSTNAME": hostname}
    return [_text(f"{name}={value}") for name, value in (merged | dict(spec.env)).items()]


def _capabilities(spec: InstanceSpec) -> dict[str, list[str]]:
    """Root has them at once, another user by files' capabilities, as Kubernetes has it (never ambient)."""
    kept = sorted(set(spec.security.capabilities))
    if beyond := [each for each in kept if each not in CAPABILITIES]:
        raise SpecError(f"capability {beyond[0][:40]!r}: more than a plain container has")
    held = kept if spec.security.uid == 0 else []
    return {"bounding": kept, "permitted": held, "effective": held}


def _kernel_mounts() -> list[dict[str, Any]]:
    return [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": _QUIET},
        {
            "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "strictatime", "mode=755", "size=65536k"],
        },
        {
            "destination": "/dev/pts", "type": "devpts", "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
        },
        {
            "destination": "/dev/shm", "type": "tmpfs", "source": "shm",  # noqa: S108  (in the container)
            "options": [*_QUIET, "mode=1777", f"size={_SHM_BYTES}"],
        },
        {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": [*_QUIET, "ro"]},
    ]  # fmt: skip


def _own_mounts(place: Place) -> list[dict[str, Any]]:
    files = [
        {"destination": path, "type": "bind", "source": file, "options": ["bind", "ro", "nosuid", "nodev"]}
        for path, file in place.files
    ]
    temporary = {
        "destination": "/tmp", "type": "bind", "source": place.temporary,  # noqa: S108  (in the container)
        "options": ["bind", "rw", "nosuid", "nodev"],
    }  # fmt: skip
    return [temporary, *files]


def _resources(spec: InstanceSpec, swap: bool) -> dict[str, Any]:
    quota_us = max(spec.cpu_millis * _PERIOD_US // 1000, _SMALLEST_QUOTA_US)
    memory = {"limit": spec.memory_bytes} | ({"swap": spec.memory_bytes} if swap else {})
    return {
        "devices": [{"allow": False, "access": "rwm"}],  # runtimes add null, zero, full, random, tty
        "cpu": {"quota": quota_us, "period": _PERIOD_US, "shares": max(spec.cpu_millis * 1024 // 1000, 2)},
        "memory": memory,
        "pids": {"limit": spec.pids},
    }
