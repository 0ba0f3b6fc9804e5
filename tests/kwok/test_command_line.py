"""The command line says what is wrong in one line, and does not import what it does not need."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kwok.errors import LabError
from kwok.lab import Lab
from kwok.traffic import lab_traffic
from surgekit.cli import app
from tests.commands import Commands, Ended

Run = Callable[..., Ended]


@pytest.fixture
def run(commands: Commands, tmp_path: Path) -> Run:
    """Runs a command whose labs are in a directory of the test."""
    return partial(commands.run, environ={"SURGEKIT_STATE_DIR": str(tmp_path), "PATH": ""})


def test_an_error_of_ours_is_one_line(run: Run) -> None:
    done = run("lab", "down", "No Name")
    assert done.returncode == 1
    assert done.stderr.startswith("error: lab name 'No Name'")
    assert done.stderr.count("\n") == 1


def test_a_wrong_option_is_told_by_name(run: Run) -> None:
    done = run("lab", "up", "--nodes", "0")
    assert done.returncode == 2
    assert "--nodes" in done.stderr


def test_no_labs_is_an_empty_list(run: Run) -> None:
    assert run("lab", "status", "--json", "-").stdout == "[]\n"


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


def test_two_extras_with_a_gateway_each_are_refused() -> None:
    result = CliRunner().invoke(app, ["lab", "up", "--with", "burst,traffic"])
    assert result.exit_code == 2
    assert "each has its own gateway" in re.sub(r"\W+", " ", result.output)


def test_what_a_lab_can_have_besides_is_told(run: Run) -> None:
    done = run("lab", "up", "--with", "trafic")
    assert done.returncode == 2
    assert "must be one of traffic, kneescale" in " ".join(done.stderr.replace("│", " ").split())
