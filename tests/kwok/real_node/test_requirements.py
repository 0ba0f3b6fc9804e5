"""What a real node needs is checked before anything is started, and what lacks is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kwok import real_node
from kwok.errors import LabError
from kwok.lab import Lab
from kwok.real_node import requirements, why_no_real_node
from surgekit.cli import app


@pytest.fixture
def capable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine that has everything; the directory of its CNI plugins."""
    (tmp_path / "bridge").touch()
    monkeypatch.setattr(requirements, "CNI_PLUGINS", tmp_path)
    monkeypatch.setattr(requirements, "why_no_namespace", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda program, **_: f"/usr/bin/{program}")
    return tmp_path


def test_nothing_lacks(capable: Path) -> None:
    assert why_no_real_node() is None


def test_what_lacks_is_told(capable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (capable / "bridge").unlink()
    assert "apt-get install containernetworking-plugins" in str(why_no_real_node())
    monkeypatch.setattr(shutil, "which", lambda program, **_: None if program == "runc" else program)
    assert why_no_real_node() == "runc is not on PATH: `apt-get install runc`"
    monkeypatch.setattr(requirements, "why_no_namespace", lambda: "run as root")
    assert why_no_real_node() == "run as root"


def test_a_real_node_that_cannot_run_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_node, "why_no_real_node", lambda: "runc is not on PATH")
    monkeypatch.setattr(Lab, "up", lambda *_, **__: pytest.fail("a lab was started"))
    result = CliRunner().invoke(app, ["lab", "up", "--with", "real-node"])
    assert isinstance(result.exception, LabError)
    assert "runc is not on PATH" in str(result.exception)
