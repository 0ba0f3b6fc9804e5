"""docs/results.md: written from the files beside it, with nothing typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.results.command import keep, write
from experiments.results.page import UnknownBench, bench_of, page, section

DOCS = Path(__file__).parents[3] / "docs"
ABOUT = {
    "command": "surgekit bench knee-search --noise 0.03",
    "date": "2026-11-18",
    "commit": "abc",
    "cores": 2,
    "memory_gib": 24,
}
SEARCHES = {
    "best": {
        "within": {"mean": 0.75, "low": 0.7, "high": 0.79},
        "error_mean": 0.0251,
        "samples_mean": 7.25,
        "samples_most": 12,
    }
}
FIGURES: dict[str, Any] = {
    "about": ABOUT,
    "curves": 400,
    "noise": 0.03,
    "searches": SEARCHES,
    "by_curve": [{"name": "a"}],
}


def test_the_page_is_what_the_kept_figures_say(tmp_path: Path) -> None:
    """If this fails: `surgekit bench results` writes it."""
    data = {file.name: json.loads(file.read_text()) for file in (DOCS / "results" / "data").glob("*.json")}
    assert data
    assert (DOCS / "results.md").read_text() == page(data)


def test_a_table_has_its_command_its_date_and_its_interval(tmp_path: Path) -> None:
    written = page({"knee-search.json": FIGURES})
    assert "`surgekit bench knee-search --noise 0.03`, 2026-11-18, 2 cores, 24 GiB, commit abc:" in written
    assert "| best | 75% (70% to 79%) | 2.5% | 7.2 (12) |" in written
    assert "400 curves" in written


def test_what_is_kept_has_no_raw_measurements(tmp_path: Path) -> None:
    file = tmp_path / "knee-search.json"
    file.write_text(json.dumps(FIGURES))
    (kept,) = keep([file], tmp_path / "docs")
    assert json.loads(kept.read_text()) == {k: v for k, v in FIGURES.items() if k != "by_curve"}
    assert write(tmp_path / "docs").read_text() == page({"knee-search.json": FIGURES})


def test_a_bench_that_no_section_shows_is_refused(tmp_path: Path) -> None:
    unknown = FIGURES | {"about": ABOUT | {"command": "surgekit bench adapter"}}
    with pytest.raises(UnknownBench, match="bench adapter"):
        section(unknown)
    file = tmp_path / "adapter.json"
    file.write_text(json.dumps(unknown))
    with pytest.raises(UnknownBench):
        keep([file], tmp_path)


def test_live_and_simulated_are_two_benches() -> None:
    simulated = {"about": ABOUT | {"command": "surgekit bench combofunc --seeds 1-2 --simulated"}}
    assert bench_of(simulated) == "combofunc --simulated"
    assert bench_of({"about": ABOUT}) == "knee-search"
