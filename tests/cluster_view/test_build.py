"""What is shipped is what the source makes: built anew, byte for byte."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.paths import ROOT

SOURCE, STATIC = ROOT / "cluster_view" / "web", ROOT / "cluster_view" / "static"
# What npm says if there is no network, or no registry.
NO_REGISTRY = re.compile(r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|network|E40[134]|E50\d")


def test_the_page_is_built_from_its_source(tmp_path: Path) -> None:
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}: install Node.js 20.19 or newer")
    shutil.copytree(SOURCE, tmp_path / "web", ignore=shutil.ignore_patterns("node_modules"))
    installed = _npm("ci", "--prefer-offline", cwd=tmp_path / "web")
    if installed.returncode and NO_REGISTRY.search(installed.stderr):
        pytest.skip(f"npm reaches no registry: {installed.stderr[-300:]}")
    assert installed.returncode == 0, installed.stderr
    built = _npm("run", "build", cwd=tmp_path / "web")
    assert built.returncode == 0, built.stdout + built.stderr
    assert _files(tmp_path / "static") == _files(STATIC), "run `make web`, and commit cluster_view/static"


def test_the_lock_names_no_registry() -> None:
    packages = json.loads((SOURCE / "package-lock.json").read_text())["packages"]
    assert [name for name, entry in packages.items() if "resolved" in entry] == []


def test_no_text_becomes_markup() -> None:
    """Names are hostile: everything shown is a text node."""
    sources = [file.read_text() for file in SOURCE.glob("src/**/*.ts*")]
    assert len(sources) > 20
    for source in sources:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function", source
        )


def _npm(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["npm", *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=300
    )


def _files(directory: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*") if file.is_file()
    }
