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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from kwok.errors import ImageError

__all__ = ["Settings", "Tree", "pack", "write_image", "write_layer"]

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
    path: str = "/usr/local/bin"


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
        _add(archive, "index.json", _index(entry, reference))


def pack(layout: Path, reference: str, target: Path) -> None:
    """Write a directory with one image (an OCI image layout) as an archive with the name `reference`."""
    (entry,) = json.loads((layout / "index.json").read_text())["manifests"]
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, "oci-layout", (layout / "oci-layout").read_bytes())
        for blob in sorted((layout / "blobs" / "sha256").iterdir()):
            with blob.open("rb") as content:
                _add_file(archive, f"blobs/sha256/{blob.name}", content)
        _add(archive, "index.json", _index(entry, reference))


def _index(entry: Mapping[str, Any], reference: str) -> bytes:
    names = {
        "io.containerd.image.name": reference,
        "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
    }
    named = {**entry, "annotations": names}
    return _json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [named]})


def _config(settings: Settings, layer_digests: Sequence[str]) -> dict[str, Any]:
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise ImageError(f"images for {machine} are not known: {', '.join(_ARCHITECTURES)}")
    run = {
        "User": settings.user,
        "Env": [f"PATH={settings.path}"],
        "Entrypoint": list(settings.entrypoint),
        "WorkingDir": "/",
    }
    return {
        "architecture": _ARCHITECTURES[machine],
        "os": "linux",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": list(layer_digests)},
        "history": [{"created_by": __name__} for _ in layer_digests],  # buildah wants one entry a layer
    }


def _add_layer(archive: tarfile.TarFile, layer: Path) -> dict[str, Any]:
    with layer.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
        size = _add_file(archive, f"blobs/sha256/{digest}", content)
    return {"mediaType": _LAYER, "digest": f"sha256:{digest}", "size": size}


def _add_blob(archive: tarfile.TarFile, media_type: str, document: object) -> dict[str, Any]:
    content = _json(document)
    digest = hashlib.sha256(content).hexdigest()
    _add(archive, f"blobs/sha256/{digest}", content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    _add_file(archive, name, io.BytesIO(content))


def _add_file(archive: tarfile.TarFile, name: str, content: BinaryIO) -> int:
    """Add what can be read from the start to the end; return its size."""
    entry = tarfile.TarInfo(name)
    entry.size = content.seek(0, io.SEEK_END)
    content.seek(0)
    archive.addfile(entry, content)
    return entry.size


def _json(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
