"""`surgekit bench results`: keep figures of benches, and write docs/results.md from all that are kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.results.checked_figures import read_figures
from experiments.results.page import RAW, page, summary_table
from experiments.results.sections import section

__all__ = ["keep", "with_table", "write"]

_DATA = Path("results", "data")
_BEGIN, _END = "<!-- results: written by `surgekit bench results` -->", "<!-- end of results -->"


def keep(files: Sequence[Path], docs: Path) -> list[Path]:
    """Copy the figures of these files, without raw measurements."""
    kept = []
    for file in files:
        figures = _without_raw(read_figures(file))
        section(figures)  # raises if no section can show it
        target = docs / _DATA / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(figures, indent=1) + "\n")
        kept.append(target)
    return kept


def write(docs: Path) -> Path:
    files = {file.name: read_figures(file) for file in (docs / _DATA).glob("*.json")}
    target = docs / "results.md"
    target.write_text(page(files))
    readme = docs.parent / "README.md"
    if readme.exists():
        readme.write_text(with_table(readme.read_text(), summary_table(files)))
    return target


def with_table(readme: str, table: str) -> str:
    """The README with this table between its marks."""
    before, begin, rest = readme.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return f"{before}{begin}\n{table}\n{end}{after}" if begin and end else readme


def _without_raw(figures: Any) -> Any:
    if isinstance(figures, dict):
        raw = {key for key, value in figures.items() if key in RAW and isinstance(value, dict | list)}
        return {key: _without_raw(value) for key, value in figures.items() if key not in raw}
    return figures
