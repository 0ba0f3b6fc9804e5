"""Run the commands that `surgekit lab up` prints, as a user would paste them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping


def printed(text: str) -> Mapping[str, str]:
    """The commands by what stands before them, or by their own words."""
    found = {}
    for line in text.splitlines():
        label, command = line[2:14].strip(), line[14:].strip()
        found[label or " ".join(re.findall(r"surgekit (\w+ \w+)", command))] = command
    return found


def bash(command: str, fine: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["bash", "-c", command], env=os.environ, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (done.returncode == 0) is fine, done.stderr
    return done
