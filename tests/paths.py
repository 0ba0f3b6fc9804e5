"""Where things of the repository are, wherever a test moves."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
MANIFESTS = ROOT / "manifests"
