"""Packages are listed in several files: a new one must be in all of them."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from tests.paths import ROOT

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = {file.parent.name for file in ROOT.glob("*/__init__.py")} - {"tests"}
NOT_IN_THE_IMAGE = {"kwok", "experiments"}


def test_every_list_names_every_package() -> None:
    found = PYPROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {name.removesuffix("*") for name in found} == PACKAGES
    assert set(PYPROJECT["tool"]["importlinter"]["root_packages"]) == PACKAGES
    makefile = (ROOT / "Makefile").read_text()
    (listed,) = re.findall(r"^PACKAGES := (.+)$", makefile, flags=re.MULTILINE)
    assert set(listed.split()) == PACKAGES | {"tests"}
    assert _copied() & PACKAGES == PACKAGES - NOT_IN_THE_IMAGE


def test_the_image_is_built_from_what_docker_is_sent() -> None:
    """What the Dockerfile copies, and nothing else, passes .dockerignore; all of it exists."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == _copied()
    assert [name for name in _copied() if not (ROOT / name).exists()] == []


def test_links_inside_packages_lead_to_what_the_image_gets() -> None:
    links = [
        link for name in PACKAGES - NOT_IN_THE_IMAGE for link in (ROOT / name).rglob("*") if link.is_symlink()
    ]
    assert {link.resolve().relative_to(ROOT).parts[0] for link in links} <= _copied()


def _copied() -> set[str]:
    """From the build context, not from another stage."""
    copies = re.findall(r"^COPY (?!--from)(.+)$", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    return {name for copy in copies for name in copy.split()[:-1]}
