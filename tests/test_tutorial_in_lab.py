"""Runs every command of docs/tutorial.md, in order, in one shell and against a lab of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwok.binaries import Binaries
from tests.paths import ROOT

pytestmark = [pytest.mark.lab, pytest.mark.long]

BLOCKS = re.findall(
    r"^```sh\n(.*?)^```$", (ROOT / "docs" / "tutorial.md").read_text(), re.DOTALL | re.MULTILINE
)
MARK = "=== end of block"


@pytest.fixture
def surroundings(binaries: Binaries, tmp_path: Path) -> Iterator[dict[str, str]]:
    """This environment's surgekit first on the PATH, and labs of its own."""
    with tempfile.TemporaryDirectory(prefix="sk-") as state:  # short: sockets lie there
        environ = os.environ | {
            "SURGEKIT_STATE_DIR": state,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "200",
        }
        yield environ
        subprocess.run(["surgekit", "lab", "down"], env=environ, cwd=tmp_path, check=False, timeout=120)


def test_the_tutorial_works(surroundings: dict[str, str], tmp_path: Path) -> None:
    # These tests run in what `make setup` has made: here it only must be a target.
    script = f"echo {MARK!r}\n".join(BLOCKS).replace("make setup", f"make --directory {ROOT} --dry-run setup")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"{script}\necho {MARK!r}\n"],
        env=surroundings, cwd=tmp_path, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    said = done.stdout.split(MARK)
    prepare, lab, create, why, up, down, place, _end, _ = said
    assert re.search(r"^surgekit \d+\.\d+", prepare, re.MULTILINE)
    assert "up" in lab
    assert re.search(r"resize-images\s+6\s+6\s+6", create)
    assert "6 planned for a target of 6" in why
    assert "20 planned for a target of 20" in up
    assert re.search(r"(resize|create) ", up)
    assert "resize-images-" in down
    assert "enforce: the scheduler was told that node-" in place
    assert not list(Path(surroundings["SURGEKIT_STATE_DIR"]).glob("surgekit/labs/*"))
