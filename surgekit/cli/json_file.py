"""The option `--json FILE` of every command that can say what it says as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["JsonFile", "takes_output", "write_json"]

JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write JSON there; '-' prints it instead of text."),
]


def takes_output(file: Path | None) -> bool:
    """Whether standard output is for the JSON alone."""
    return str(file) == "-"


def write_json(content: Any, file: Path | None) -> bool:
    """Whether standard output was taken by it: then nothing else may be printed there."""
    if file is None:
        return False
    if takes_output(file):
        sys.stdout.write(json.dumps(content, default=str) + "\n")  # one line: it may be a pod's log
        return True
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1, default=str) + "\n")
    return False
