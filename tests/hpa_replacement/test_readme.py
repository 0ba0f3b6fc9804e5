"""The READMEs against the code: settings, and files they link to."""

from __future__ import annotations

import re

import pytest

from hpa_replacement.settings import Settings
from surgekit.process.settings import describe
from tests.paths import ROOT

PART = ROOT / "hpa_replacement"
DOCUMENTS = [
    *(PART / name for name in ("README.md", "adapter/README.md", "knative/README.md")),
    *(ROOT / "docs" / name for name in ("decisions/kneescale.md", "results/kneescale.md")),
]


def test_the_readme_names_every_setting() -> None:
    text = (PART / "README.md").read_text()
    for key, default, meaning in describe(Settings):
        assert f"| `{key}` | {default} | {meaning} |" in text


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_lead_to_files(document: object) -> None:
    file = ROOT / str(document)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read_text()):
        assert (file.parent / target).exists(), target
