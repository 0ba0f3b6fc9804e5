"""What the expander's manifests say against what the code says; no cluster needed."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer
import yaml

from cluster_autoscaler_hook.catalogue import CatalogueError
from cluster_autoscaler_hook.catalogue import load as load_catalogue
from cluster_autoscaler_hook.expander.last_good_catalogue import LastGoodCatalogue
from cluster_autoscaler_hook.expander.settings import Settings
from surgekit.cli import app
from surgekit.process.modes import Mode
from surgekit.process.settings import load
from tests.paths import ROOT

MANIFESTS = ROOT / "manifests" / "expander"
README = ROOT / "cluster_autoscaler_hook" / "expander" / "README.md"


def test_the_catalogue_can_be_used_in_shadow_and_not_in_enforce() -> None:
    """What is shipped answers neutrally; `mode: enforce` alone does not make sample prices rent nodes."""
    file = MANIFESTS / "catalogue.yaml"
    assert load_catalogue(file).entries
    assert load(Settings, MANIFESTS / "settings.yaml", environ={}).mode is Mode.SHADOW
    assert LastGoodCatalogue(file, live=False).current().sample
    with pytest.raises(CatalogueError, match="sample"):
        LastGoodCatalogue(file, live=True)


def test_the_command_line_takes_the_arguments_of_the_pod() -> None:
    spec = yaml.safe_load((MANIFESTS / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    arguments: list[str] = container["args"]
    command: Any = typer.main.get_command(app)
    context = command.make_context("surgekit", list(arguments))
    while hasattr(command, "resolve_command"):  # a group of commands
        name, command, arguments = command.resolve_command(context, arguments)
        context = command.make_context(name, list(arguments), parent=context)
    assert not context.args, f"left over: {context.args}"


def test_every_resource_is_named() -> None:
    named = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())
    files = {file.name for file in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml"}
    generated = {name for generator in named["configMapGenerator"] for name in generator["files"]}
    own = {name for name in named["resources"] if not name.startswith("../")}
    assert own | generated == files


def test_the_readme_names_every_metric() -> None:
    text = README.read_text()
    source = "".join(file.read_text() for file in README.parent.glob("*.py"))
    for metric in set(re.findall(r'"(surgekit_expander_\w+)"', source)):
        assert f"`{metric}" in text
