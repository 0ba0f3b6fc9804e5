"""The README names every setting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cluster_view.settings import Settings
from surgekit.process.settings import SettingsError, load
from tests.manifests.test_settings_files import Part, table
from tests.paths import ROOT


def test_the_readme_has_the_table() -> None:
    part = Part(Settings, "view", "cluster_view")  # type: ignore[arg-type]  # no process, so no health port
    assert table(part) in (ROOT / "cluster_view" / "README.md").read_text()


def test_variables_and_bounds(tmp_path: Path) -> None:
    file = tmp_path / "view.yaml"
    file.write_text("prometheus_timeout_s: 1\n")
    environ = {"SURGEKIT_VIEW_PRICE_LABELS": "a,b"}
    assert load(Settings, file, environ) == replace(
        Settings(), prometheus_timeout_s=1.0, price_labels=("a", "b")
    )
    with pytest.raises(SettingsError, match="prometheus_timeout_s"):
        load(Settings, None, {"SURGEKIT_VIEW_PROMETHEUS_TIMEOUT_S": "0"})
