"""Write container images as OCI archives that `ctr images import` takes. Same input, same bytes.

https://github.com/opencontainers/image-spec: image-layout.md, manifest.md, config.md, layer.md.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kwok.errors import ImageError

__all__ = ["Settings", "Tree", "write_image", "write_layer"]

_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"  # not compressed: it is read once, on the same machine
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # GOARCH of platform.machine()

Tree = Mapping[str, Path | None]  # path inside the image -> file to copy; None: a directory


@dataclass(frozen=True)
class Settings:
    """How a container of the image runs, unless the pod says otherwise."""

    entrypoint: Sequence[str] = ()
    user: str = "65532:65532"  # a number, so that the kubelet can tell it is not root (runAsNonRoot)
    environment: Mapping[str, str] = field(default_factory=dict)
    working_directory: str = "/"


def write_layer(tree: Tree, target: Path) -> None:
    """Write a layer: files keep whether they are executable; owner, times and order do not vary."""
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, source in sorted(tree.items()):
            entry = tarfile.TarInfo(name.lstrip("/"))
            if source is None:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
                continue
            status = source.stat()
            entry.size, entry.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
            with source.open("rb") as content:
                archive.addfile(entry, content)


def write_image(reference: str, layers: Sequence[Path], settings: Settings, target: Path) -> None:
    """Write an OCI archive with one image. containerd imports it under the name `reference`."""
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        written = [_add_layer(archive, layer) for layer in layers]
        config = _add_blob(archive, _CONFIG, _config(settings, [layer["digest"] for layer in written]))
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": written}
        entry = _add_blob(archive, _MANIFEST, manifest)
        names = {
            "io.containerd.image.name": reference,  # what containerd reads, else the next
            "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
        }
        index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [entry | {"annotations": names}]}
        _add(archive, "index.json", _json(index))


def _config(settings: Settings, layer_digests: Sequence[str]) -> dict[str, Any]:
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise ImageError(f"images for {machine} are not known: {', '.join(_ARCHITECTURES)}")
    run = {
        "User": settings.user,
        "Env": [f"{key}={value}" for key, value in settings.environment.items()],
        "Entrypoint": list(settings.entrypoint),
        "WorkingDir": settings.working_directory,
    }
    return {
        "architecture": _ARCHITECTURES[machine],
        "os": "linux",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": list(layer_digests)},
    }


def _add_layer(archive: tarfile.TarFile, layer: Path) -> dict[str, Any]:
    with layer.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
        entry = tarfile.TarInfo(f"blobs/sha256/{digest}")
        entry.size = content.tell()
        content.seek(0)
        archive.addfile(entry, content)
    return {"mediaType": _LAYER, "digest": f"sha256:{digest}", "size": entry.size}


def _add_blob(archive: tarfile.TarFile, media_type: str, document: object) -> dict[str, Any]:
    content = _json(document)
    digest = hashlib.sha256(content).hexdigest()
    _add(archive, f"blobs/sha256/{digest}", content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _json(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
