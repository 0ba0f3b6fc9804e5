"""Build a group with `go build`, with progress."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from kwok.binaries.groups import Group
from kwok.binaries.toolchain import find_go
from kwok.errors import BinariesError

__all__ = ["build"]

_PLAIN_LINE_S = 15.0  # between progress lines where there is no terminal


def build(group: Group, into: Path, environ: Mapping[str, str] = os.environ) -> None:
    """Build all binaries of `group` into the directory `into`."""
    console = Console(stderr=True, soft_wrap=True)
    go = find_go(environ)
    # GOWORK and GOFLAGS of the user's shell must not change what is built, nor whether there is a C compiler.
    # Without cgo the binaries are static: they run in an image that has nothing else.
    env = dict(environ) | {"GOWORK": "off", "GOFLAGS": "", "CGO_ENABLED": "0"}
    packages = list(group.packages.values())
    total = _count(go, group, packages, env)
    argv = [str(go), "build", "-v", *group.flags(), "-o", f"{into}{os.sep}", *packages]
    started_s = time.monotonic()
    with subprocess.Popen(
        argv, cwd=group.module, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        said = _follow(process, group, total, console)
    if process.returncode != 0:
        raise BinariesError(f"building {group.name} failed:\n" + "\n".join(said))
    for binary, package in group.packages.items():
        (into / _built_name(package)).rename(into / binary)
    for name, package in group.manifests.items():
        _copy_manifests(_directory_of(go, group, package, env), into / name)
    console.print(f"{group.name}: {', '.join(group.packages)} built in {time.monotonic() - started_s:.0f} s")


def _count(go: Path, group: Group, packages: list[str], env: Mapping[str, str]) -> int:
    """The most packages to compile; those in Go's own cache are skipped."""
    listing = subprocess.run(
        [str(go), "list", "-deps", *group.flags(), *packages],
        cwd=group.module, env=dict(env), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listing.returncode != 0:
        raise BinariesError(f"the modules of {group.name} cannot be had:\n{listing.stderr.strip()[-2000:]}")
    return len(listing.stdout.split())


def _follow(process: subprocess.Popen[str], group: Group, total: int, console: Console) -> deque[str]:
    """Show packages as they are compiled; return the last lines for an error message."""
    assert process.stderr is not None  # noqa: S101  # asked for with PIPE
    said: deque[str] = deque(maxlen=30)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(f"building {group.name}", total=total)
        next_line_s = 0.0
        for done, line in enumerate(process.stderr, start=1):
            said.append(line.rstrip())
            progress.update(task, completed=done)
            if not console.is_terminal and time.monotonic() >= next_line_s:
                console.print(f"building {group.name}: {done} of at most {total} packages")
                next_line_s = time.monotonic() + _PLAIN_LINE_S
    return said


def _directory_of(go: Path, group: Group, package: str, env: Mapping[str, str]) -> Path:
    """A directory of a module in Go's cache."""
    module, _, directory = package.rpartition("/")
    listing = subprocess.run(
        [str(go), "list", "-m", "-f", "{{.Dir}}", module],
        cwd=group.module, env=dict(env), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listing.returncode != 0 or not (found := listing.stdout.strip()):
        raise BinariesError(f"{module} of {group.name} cannot be had:\n{listing.stderr.strip()[-2000:]}")
    return Path(found, directory)


def _copy_manifests(source: Path, into: Path) -> None:
    """Without their modes: files in Go's cache are read-only."""
    for file in source.rglob("*.yaml"):
        target = into / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())


def _built_name(package: str) -> str:
    """The name that `go build` gives the binary: the last path element that is not a major version."""
    elements = [e for e in package.split("/") if not re.fullmatch(r"v\d+", e)]
    return elements[-1]
