from __future__ import annotations

from typing import Any

import pytest

from node_speed_probe.settings import Settings
from surgekit.process.settings import SettingsError, load


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
