"""Build container images without a registry and without a container engine.

`build(name)` returns an OCI archive for `ctr --namespace k8s.io images import`; `reference(name)` is the name
that a pod then uses. Archives are cached by what went into them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from kwok.binaries.groups import KUBERNETES_VERSION
from kwok.errors import ImageError
from kwok.images import debian, dockerfile, oci, static
from kwok.places import cache_directory, made_once

__all__ = ["NAMES", "build", "reference"]

# Full names: when a pod says haproxy:2.6, containerd looks for docker.io/library/haproxy:2.6. The last three
# are named as in manifests/.
_REFERENCES = {
    "pause": "localhost/pause:lab",
    "function-server": "localhost/function-server:lab",
    "kube-scheduler": f"registry.k8s.io/kube-scheduler:{KUBERNETES_VERSION}",
    "haproxy": "docker.io/library/haproxy:2.6",
    "surgekit": "docker.io/library/surgekit:0.1.0",
}
NAMES = tuple(_REFERENCES)


def reference(name: str) -> str:
    """The image's full name, as the kubelet asks containerd for it."""
    if name not in _REFERENCES:
        raise ImageError(f"image {name!r} is not known: {', '.join(NAMES)}")
    return _REFERENCES[name]


def build(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the image as an OCI archive; build it first if the cache does not have it."""
    others: dict[str, Callable[[str, Mapping[str, str]], Path]] = {
        "haproxy": _haproxy,
        "surgekit": dockerfile.build,
    }
    named = reference(name)
    return others[name](named, environ) if name in others else static.build(name, named, environ)


def _haproxy(named: str, environ: Mapping[str, str]) -> Path:
    """Debian's package. Pods end it with `sh`, which the root file system has."""
    debian.need("haproxy", "mmdebstrap")
    root = debian.root_file_system(("haproxy",), environ)
    settings = oci.Settings(entrypoint=["haproxy"], path=debian.PATH)
    key = hashlib.sha256(repr((root.stem, named, settings)).encode()).hexdigest()[:16]
    place = cache_directory(environ) / "images" / f"haproxy-{key}.tar"
    return made_once(place, lambda target: oci.write_image(named, [root], settings, target))
