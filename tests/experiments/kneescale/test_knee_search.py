"""The search alone, on curves from a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiments.commands import app
from experiments.kneescale.blind_families import FAMILIES, draw, write_csv
from experiments.kneescale.curve_file import CurveFileError, MeasuredCurve, read_curves, true_knee
from experiments.kneescale.knee_search import FULL_SWEEP, blind_curves, run

HYPERBOLA = [r / (r + 20) for r in range(1, 101)]


@pytest.mark.parametrize(
    ("scores", "knee"),
    [
        ([min(r, 30) for r in range(1, 101)], 30),
        (HYPERBOLA, 30),  # sqrt((1 + 20) * (100 + 20)) - 20
        ([5.0] * 50, 1),
        ([1.0 + 0.0005 * r for r in range(50)], 1),
        (list(range(1, 51)), 50),
    ],
)
def test_the_true_knee(scores: list[float], knee: int) -> None:
    assert true_knee(scores) == knee


def test_files_are_read_and_written(tmp_path: Path) -> None:
    file = tmp_path / "curves.csv"
    drawn = [draw(family, seed) for family in FAMILIES for seed in (1, 2)]
    write_csv(drawn, file)
    assert [curve.scores for curve in read_curves(file)] == [pytest.approx(curve.scores) for curve in drawn]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("a,3,1,2", "2 scores for a capacity of 3"),
        ("a,2,1,2", "at least 3 replicas"),
        ("a,3,1,nan,2", "at least 0"),
        ("a,3,1,-1,2", "at least 0"),
        ("a,3,0,0,0", "above 0"),
        ("a,x,1,2,3", "invalid literal"),
        ("a", "a line is name"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, fault: str) -> None:
    file = tmp_path / "curves.csv"
    file.write_text(f"# comment\n\ngood,3,1,2,2.5\n{line}\n")
    with pytest.raises(CurveFileError, match=f"line 4: .*{fault}"):
        read_curves(file)


def test_a_file_without_curves_says_what_a_line_is(tmp_path: Path) -> None:
    (tmp_path / "curves.csv").write_text("# nothing\n")
    for name in ("curves.csv", "missing.csv"):
        with pytest.raises(CurveFileError, match=name):
            read_curves(tmp_path / name)


def test_without_noise_a_full_sweep_finds_a_clear_knee_and_ours_takes_ten_samples_at_most() -> None:
    curve = MeasuredCurve("corner", tuple(float(min(r, 30)) for r in range(1, 101)))
    found = run([curve], 0.0, [1, 2], lambda _: None)["searches"]
    assert found[FULL_SWEEP]["within"]["mean"] == 1.0
    assert found[FULL_SWEEP]["samples_mean"] == 100
    assert found["ours"]["within"]["mean"] == 1.0
    assert found["ours"]["samples_most"] <= 10


def test_blind_curves_are_the_same_every_time() -> None:
    assert blind_curves([3]) == blind_curves([3])
    assert {curve.name for curve in blind_curves([3])} == set(FAMILIES)


def test_the_command_takes_a_file(tmp_path: Path) -> None:
    file = tmp_path / "curves.csv"
    write_csv([draw(FAMILIES[0], 1)], file)
    result = CliRunner().invoke(
        app, ["knee-search", "--curves", str(file), "--noise", "0.03", "--seeds", "4-5", "--json", "-"]
    )
    assert result.exit_code == 0, result.output
    assert '"seeds": [4, 5]' in result.stdout
