"""Documents lead where they say: links between files, and modules that docs/architecture.md names."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.paths import ROOT

# A link's target up to a space or the closing bracket; images are links, too. Code is no link.
LINK = re.compile(r"\]\(([^)\s]+)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
MODULE = re.compile(r"\b[a-z_0-9]+(?:/[a-z_0-9]+)+\.py\b")


def documents() -> list[Path]:
    """All that git tracks or would: not what lies in environments and caches."""
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    said = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    if said.returncode:
        pytest.skip("not a git repository")
    return sorted(file for name in said.stdout.splitlines() if (file := ROOT / name).exists())


def anchors(document: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ +(.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken(document: Path, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return False  # another site
    name, _, anchor = link.partition("#")
    target = (document.parent / name) if name else document
    return not target.exists() or bool(anchor and anchor not in anchors(target))


def test_relative_links_lead_somewhere() -> None:
    found = documents()
    assert ROOT / "README.md" in found
    links = {
        (str(document.relative_to(ROOT)), link)
        for document in found
        for link in LINK.findall(CODE.sub("", document.read_text()))
        if broken(document, link)
    }
    assert links == set()


@pytest.mark.parametrize("name", ["architecture.md", "decisions/extender.md", "decisions/lab.md"])
def test_modules_named_in_a_document_exist(name: str) -> None:
    named = set(MODULE.findall((ROOT / "docs" / name).read_text()))
    assert named
    assert [module for module in sorted(named) if not _exists(module)] == []


def _exists(module: str) -> bool:
    """Written from the root, or within the part that the page is about."""
    return (ROOT / module).is_file() or any(ROOT.glob(f"*/{module}"))
