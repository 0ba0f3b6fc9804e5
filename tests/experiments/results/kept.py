"""The figures kept beside docs/results.md."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from experiments.results.checked_figures import read_figures
from experiments.results.section import Figures
from tests.paths import ROOT

__all__ = ["kept_figures"]


@cache
def kept_figures() -> Mapping[str, Figures]:
    return {file.name: read_figures(file) for file in sorted((ROOT / "docs/results/data").glob("*.json"))}
