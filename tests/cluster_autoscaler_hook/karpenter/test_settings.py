"""Settings that cannot be used are refused by name and value; the manifests name every key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster_autoscaler_hook.karpenter.controller import LEASE_NAME
from cluster_autoscaler_hook.karpenter.settings import Settings
from surgekit.settings import SettingsError, describe, load

MANIFESTS = Path(__file__).parents[3] / "manifests" / "karpenter"


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"pool": "Über"}, "pool"),
        ({"expire_after": "a month"}, "expire_after"),
        ({"variant": "fast"}, "variant"),
        ({"arm64_classes": "("}, "arm64_classes"),
        ({"batch_idle_s": 9.0, "batch_max_s": 1.0}, "batch_max_s"),
        ({"max_nodes": -1}, "max_nodes"),
    ],
)
def test_a_bad_setting_is_named(given: dict[str, Any], key: str) -> None:
    with pytest.raises(SettingsError, match=key):
        load(Settings, None, environ={}, **given)


def example() -> str:
    lines = [
        "# Settings of the Karpenter hook: every key with its default; take the # away to change one.",
        "# The Deployment's arguments and SURGEKIT_<KEY> variables override what is said here.",
    ]
    for key, default, meaning in describe(Settings):
        lines += ["", f"# {meaning}", f"# {key}: {'null' if default == 'None' else default}"]
    return "\n".join(lines) + "\n"


def test_the_settings_file_names_every_key(request: pytest.FixtureRequest) -> None:
    file = MANIFESTS / "settings.yaml"
    if request.config.getoption("--update-golden"):
        file.write_text(example())
    assert file.read_text() == example(), "pytest --update-golden writes it anew"
    assert load(Settings, file, environ={}) == Settings()


def test_the_role_names_the_lease_of_the_code() -> None:
    documents = yaml.safe_load_all((MANIFESTS / "rbac.yaml").read_text())
    named = [r["resourceNames"] for d in documents for r in d.get("rules", []) if "resourceNames" in r]
    assert named == [[LEASE_NAME]]
