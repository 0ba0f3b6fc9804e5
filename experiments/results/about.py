"""Where, when and how a bench ran: the key `about` of its JSON file."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from surgekit.cli.json_file import write_json

__all__ = ["about", "write_figures"]


def write_figures(figures: Mapping[str, Any], file: Path | None) -> bool:
    """Write the JSON of a bench. Returns whether standard output was taken by it."""
    return write_json({"about": about()} | dict(figures), file)


def about() -> dict[str, Any]:
    arguments = sys.argv[1:]
    for option in ("--json", "--plot", "--plots"):  # where the figures went says nothing about them
        while option in arguments:
            at = arguments.index(option)
            del arguments[at : at + 2]
    # Where data lies on this machine is nobody's business; what it is, is in the last two names.
    arguments = ["/".join(Path(word).parts[-2:]) if word.startswith("/") else word for word in arguments]
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "command": shlex.join(["surgekit", *arguments]),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "version": version("surgekit"),
        "commit": _commit(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory_bytes / 2**30),
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def _commit() -> str | None:
    """Of the checkout that this code lies in; None if it was installed."""
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
