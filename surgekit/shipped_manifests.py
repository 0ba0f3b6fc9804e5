"""Where the manifests are: the package carries them, so that an installed surgekit has them too."""

from __future__ import annotations

from pathlib import Path

__all__ = ["MANIFESTS"]

# In the repository a link to its top-level manifests/; resolved, since kustomize compares real paths.
MANIFESTS = (Path(__file__).parent / "manifests").resolve()
