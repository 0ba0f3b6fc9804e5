"""Settings files and READMEs name every key of their part, with its meaning and default."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import burst_plane.agent.settings
import burst_plane.placement.settings
import burst_plane.settings
import cluster_autoscaler_hook.expander.settings
import cluster_autoscaler_hook.karpenter.settings
import combofunc.settings
import function_gateway.settings
import hpa_replacement.adapter.settings
import hpa_replacement.settings
import limit_allocator.agent.settings
import limit_allocator.settings
import node_speed_probe.settings
import scheduler_extender.settings
from surgekit.process.settings import ProcessSettings, describe, load
from tests.paths import MANIFESTS, ROOT


@dataclass(frozen=True)
class Part:
    settings: type[ProcessSettings]
    manifest: str  # folder below manifests/
    readme: str  # folder

    @property
    def file(self) -> Path:
        return MANIFESTS / self.manifest / "settings.yaml"

    @property
    def variables(self) -> str:
        return f"SURGEKIT_{self.settings.PART.upper()}_<KEY>"


PARTS = {
    "extender": Part(scheduler_extender.settings.Settings, "base/extender", "scheduler_extender"),
    "probe": Part(node_speed_probe.settings.Settings, "base/probe", "node_speed_probe"),
    "combofunc": Part(combofunc.settings.Settings, "combofunc", "combofunc"),
    "load balancer": Part(function_gateway.settings.Settings, "load-balancer", "function_gateway"),
    "limit allocator": Part(limit_allocator.settings.Settings, "limit-allocator", "limit_allocator"),
    "limit agent": Part(
        limit_allocator.agent.settings.Settings, "limit-allocator/agent", "limit_allocator/agent"
    ),
    "burst controller": Part(burst_plane.settings.Settings, "burst-plane", "burst_plane"),
    "pulselet": Part(burst_plane.agent.settings.Settings, "burst-plane/agent", "burst_plane/agent"),
    "burst placement": Part(
        burst_plane.placement.settings.Settings, "burst-plane/balancer", "burst_plane/placement"
    ),
    "KneeScale": Part(hpa_replacement.settings.Settings, "kneescale", "hpa_replacement"),
    "adapter": Part(hpa_replacement.adapter.settings.Settings, "adapter", "hpa_replacement/adapter"),
    "expander": Part(
        cluster_autoscaler_hook.expander.settings.Settings, "expander", "cluster_autoscaler_hook/expander"
    ),
    "node planner": Part(
        cluster_autoscaler_hook.karpenter.settings.Settings, "karpenter", "cluster_autoscaler_hook/karpenter"
    ),
}
_YAML = {"None": "null", "": '""'}
each_part = pytest.mark.parametrize("name", PARTS)


def example(name: str, part: Part) -> str:
    """The settings file that explains itself."""
    lines = [
        f"# Settings of the {name}: every key with its default; take the # away to change one.",
        f"# The Deployment's arguments and {part.variables} variables override what is said here.",
    ]
    for key, default, meaning in describe(part.settings):
        lines += ["", f"# {meaning}", f"# {key}: {_YAML.get(default, default)}"]
    return "\n".join(lines) + "\n"


def table(part: Part) -> str:
    rows = [f"| `{key}` | {_cell(value)} | {_cell(text)} |" for key, value, text in describe(part.settings)]
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *rows])


def _cell(text: str) -> str:
    return {"None": "none", "": "none"}.get(text, text).replace("|", "\\|")


@each_part
def test_the_settings_file_names_every_key(name: str, request: pytest.FixtureRequest) -> None:
    part = PARTS[name]
    if request.config.getoption("--update-golden"):
        part.file.write_text(example(name, part))
    assert part.file.read_text() == example(name, part), "pytest --update-golden writes it anew"


@each_part
def test_the_settings_file_can_be_used(name: str, tmp_path: Path) -> None:
    """As shipped, and with every key's # taken away: both are the defaults."""
    part = PARTS[name]
    assert load(part.settings, part.file, environ={}) == part.settings()
    opened = tmp_path / "settings.yaml"
    keys = "|".join(key for key, _, _ in describe(part.settings))
    opened.write_text(re.sub(rf"(?m)^# ({keys}): (?!null$)", r"\1: ", part.file.read_text()))
    assert len(yaml.safe_load(opened.read_text())) > len(describe(part.settings)) / 2
    assert load(part.settings, opened, environ={}) == part.settings()


@each_part
def test_the_readme_names_every_setting(name: str, request: pytest.FixtureRequest) -> None:
    part = PARTS[name]
    file = ROOT / part.readme / "README.md"
    text = file.read_text()
    found = re.search(r"^\| key \| default \| meaning \|\n\|---\|---\|---\|\n(\|.*\n?)*", text, re.MULTILINE)
    if request.config.getoption("--update-golden"):
        begin, end = found.span() if found else (len(text), len(text))
        heading = "" if found else "\n## Settings\n\n"
        file.write_text(text[:begin] + heading + table(part) + "\n" + text[end:])
        return
    assert found, f"a table of settings in {file.relative_to(ROOT)}"
    assert found[0].strip() == table(part), "pytest --update-golden writes it anew"
