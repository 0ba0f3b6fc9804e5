"""The option `--json FILE` of commands that print figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["JsonFile", "write_json"]

JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write all figures there; '-' prints them instead of tables.")
]


def write_json(content: dict[str, Any], file: Path | None) -> bool:
    """Whether standard output was taken by it: then nothing else may be printed there."""
    if file is None:
        return False
    text = json.dumps(content, indent=1) + "\n"
    if str(file) == "-":
        sys.stdout.write(text)
        return True
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return False
