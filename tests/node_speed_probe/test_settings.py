from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import node_speed_probe
from node_speed_probe.settings import Settings
from surgekit.process.settings import SettingsError, describe, load


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"half_life_s": "nan"}, "half_life_s: 'nan'"),
        ({"outlier_factor": 1}, "outlier_factor: 1"),
        ({"mode": "on"}, "mode: 'on'"),
        ({"writes_per_s": 0}, "writes_per_s: 0"),
        ({"refresh_s": 5, "publish_interval_s": 10}, "refresh_s: 5.0"),
        ({"half_live_s": 1}, "half_live_s"),
    ],
)
def test_an_error_names_key_and_value(given: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        load(Settings, environ={}, **given)


def test_the_readme_shows_the_settings_as_they_are() -> None:
    readme = (Path(node_speed_probe.__file__).parent / "README.md").read_text()
    for key, default, meaning in describe(Settings):
        assert f"| `{key}` | {default} | {meaning} |" in readme
