"""The command line says what is wrong in one line, and does not import what it does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kwok.errors import LabError
from kwok.lab import Lab
from kwok.traffic import lab_traffic
from surgekit.cli import app

SURGEKIT = [sys.executable, "-c", "from surgekit.cli import main; main()"]


def run(*arguments: str, state: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SURGEKIT, *arguments],
        env={"SURGEKIT_STATE_DIR": str(state), "PATH": ""}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_an_error_of_ours_is_one_line(tmp_path: Path) -> None:
    done = run("lab", "down", "No Name", state=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: lab name 'No Name'")
    assert done.stderr.count("\n") == 1


def test_a_wrong_option_is_told_by_name(tmp_path: Path) -> None:
    done = run("lab", "up", "--nodes", "0", state=tmp_path)
    assert done.returncode == 2
    assert "--nodes" in done.stderr


def test_no_labs_is_an_empty_list(tmp_path: Path) -> None:
    assert run("lab", "status", "--json", "-", state=tmp_path).stdout == "[]\n"


def test_the_parts_are_imported_only_when_used() -> None:
    code = (
        "import sys, surgekit.cli; "
        "sys.exit(str({'numpy', 'kubernetes', 'matplotlib', 'flask'} & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_traffic_that_cannot_flow_is_refused_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lab_traffic, "why_no_namespace", lambda: "network namespaces need CAP_SYS_ADMIN")
    monkeypatch.setattr(Lab, "up", lambda *_, **__: pytest.fail("a lab was started"))
    result = CliRunner().invoke(app, ["lab", "up", "--with", "traffic"])
    assert isinstance(result.exception, LabError)
    assert "CAP_SYS_ADMIN" in str(result.exception)


def test_what_a_lab_can_have_besides_is_told(tmp_path: Path) -> None:
    done = run("lab", "up", "--with", "trafic", state=tmp_path)
    assert done.returncode == 2
    assert "must be one of traffic, kneescale" in " ".join(done.stderr.replace("│", " ").split())
