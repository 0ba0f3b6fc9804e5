"""`surgekit bench planner` on a handful of problems."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiments.commands import app
from experiments.planner import bench as bench_planner
from experiments.planner.random_problems import KINDS


def test_prints_and_writes_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_planner, "_LARGE", (40, 80))
    monkeypatch.setattr(bench_planner, "_LARGE_TARGET", 60)
    file = tmp_path / "planner.json"
    command = ["planner", "--instances", str(len(KINDS)), "--repetitions", "10", "--json", str(file)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    figures = json.loads(file.read_text())
    assert figures["instances"] == len(KINDS)
    assert figures["excess_mean"] <= 0.02
    assert figures["excess_worst"] <= 0.08
    assert figures["short"] == 0
    assert [row["kind"] for row in figures["by_kind"]] == list(KINDS)
    assert {row["nodes"] for row in figures["by_nodes"]} == {40, 80}
    assert all(figures[key] > 0 for key in ("p99_ms_16x16", "p99_cpu_ms_16x16", "ms_5000x16"))
