"""The agent's code on a real cgroup v2 hierarchy, in a guest with Debian's kernel."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kwok import guest
from tests.limit_allocator.cgroups.node import MIB
from tests.paths import ROOT

pytestmark = [pytest.mark.lab, pytest.mark.long]
WRITTEN = "Written()"


def guest_files() -> dict[str, Path | bytes]:
    sources = [*ROOT.glob("limit_allocator/**/*.py"), *Path(__file__).parent.glob("*.py")]
    packages = [ROOT / "tests/__init__.py", ROOT / "tests/limit_allocator/__init__.py"]
    return {f"app/{path.relative_to(ROOT)}": path for path in (*sources, *packages)}


def in_guest(*names: str) -> Any:
    program = ["tests.limit_allocator.cgroups.guest_program", *names]
    python = str(Path(sys.executable).resolve())
    ended = guest.run(guest_files(), ["env", "PYTHONPATH=/app", python, "-m", *program], cores=2, timeout_s=280)
    line = next((line for line in ended.output.splitlines() if line.startswith("RESULT ")), None)
    assert line, ended.output
    return json.loads(line.removeprefix("RESULT "))


@pytest.fixture(scope="module")
def seen() -> Any:
    if reason := guest.why_no_guest():
        pytest.skip(f"no guest: {reason}")
    return in_guest()
