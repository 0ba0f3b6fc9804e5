"""What containerd knows of an image, as its command line prints it: digests, chain IDs, mounts."""

from __future__ import annotations

import hashlib
import shlex
from typing import Any

import msgspec

__all__ = ["LayersError", "chain_id", "child_digest", "diff_ids", "layers"]

_GOARCH = {"x86_64": "amd64", "aarch64": "arm64"}  # of platform.machine()


class LayersError(ValueError):
    """An image, or an answer of containerd, that makes no sense."""


def child_digest(document: bytes, machine: str) -> tuple[str, bool]:
    """Of an index: the manifest for this machine. Of a manifest: its configuration (then True)."""
    whole = _decode(document)
    if isinstance(config := whole.get("config"), dict):
        return _digest(config), True
    manifests = [each for each in whole.get("manifests") or () if isinstance(each, dict)]
    fitting = [each for each in manifests if _fits(each.get("platform"), machine)]
    if not fitting:
        raise LayersError(f"the image is not for {machine}")
    return _digest(fitting[0]), False


def diff_ids(config: bytes) -> tuple[str, ...]:
    root = _decode(config).get("rootfs")
    found = root.get("diff_ids") if isinstance(root, dict) else None
    if not isinstance(found, list) or not found or not all(isinstance(each, str) for each in found):
        raise LayersError("the image has no layers")
    return tuple(found)


def chain_id(diffs: tuple[str, ...]) -> str:
    """Names all layers together: github.com/opencontainers/image-spec, config.md, Layer ChainID."""
    chain = diffs[0]
    for diff in diffs[1:]:
        chain = "sha256:" + hashlib.sha256(f"{chain} {diff}".encode()).hexdigest()
    return chain


def layers(mount_command: str) -> tuple[str, ...]:
    """The directories of a view's layers, the uppermost first, from `ctr snapshots mounts`."""
    words = shlex.split(mount_command.strip())
    try:
        at = words.index("-t")
        kind, source = words[at + 1], words[at + 2]
        options = words[words.index("-o") + 1].split(",")
    except (ValueError, IndexError) as error:
        raise LayersError(f"no mount: {mount_command[:100]!r}") from error
    if kind == "overlay":
        lower = next((each.partition("=")[2] for each in options if each.startswith("lowerdir=")), "")
        found = tuple(each for each in lower.split(":") if each)
    else:
        found = (source,)
    if not found or not all(each.startswith("/") for each in found):
        raise LayersError(f"no layers: {mount_command[:100]!r}")
    return found


def _fits(platform: Any, machine: str) -> bool:
    if platform is None:  # an archive with one image names none
        return True
    return (
        isinstance(platform, dict)
        and platform.get("os", "linux") == "linux"
        and platform.get("architecture") == _GOARCH.get(machine, machine)
    )


def _digest(entry: dict[str, Any]) -> str:
    digest = entry.get("digest")
    if not isinstance(digest, str) or not digest.startswith("sha256:") or not digest[7:].isalnum():
        raise LayersError("a digest of the image cannot be read")
    return digest


def _decode(document: bytes) -> dict[str, Any]:
    try:
        whole = msgspec.json.decode(document)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise LayersError(f"the image cannot be read: {error}") from error
    if not isinstance(whole, dict):
        raise LayersError("the image cannot be read")
    return whole
