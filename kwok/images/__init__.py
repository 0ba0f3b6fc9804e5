"""Build container images without a registry and without a container engine.

`build(name)` returns an OCI archive for `ctr --namespace k8s.io images import`; `reference(name)` is the name
that a pod then uses. Archives are cached by what went into them.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kwok.binaries import Binaries
from kwok.errors import ImageError
from kwok.images import oci
from kwok.places import cache_directory, made_once

__all__ = ["NAMES", "build", "reference"]

# One static binary and nothing else.
_STATIC = {
    "pause": "localhost/pause:lab",
    "function-server": "localhost/function-server:lab",
}
NAMES = tuple(_STATIC)


def reference(name: str) -> str:
    """The image's full name, as the kubelet asks containerd for it."""
    if name not in _STATIC:
        raise ImageError(f"image {name!r} is not known: {', '.join(NAMES)}")
    return _STATIC[name]


def build(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the image as an OCI archive; build it first if the cache does not have it."""
    named = reference(name)
    binary = Binaries(environ).path(name)
    settings = oci.Settings(entrypoint=[f"/{name}"])
    key = _key(repr((named, settings)).encode(), binary.read_bytes(), Path(oci.__file__).read_bytes())

    def write(target: Path) -> None:
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            layer = Path(scratch) / "layer.tar"
            oci.write_layer({f"/{name}": binary}, layer)
            oci.write_image(named, [layer], settings, target)

    return made_once(cache_directory(environ) / "images" / f"{name}-{key}.tar", write)


def _key(*inputs: bytes) -> str:
    digest = hashlib.sha256()
    for content in inputs:
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()[:16]
