"""What manifests/load-balancer says against what the code says; no cluster needed."""

from __future__ import annotations

from typing import Any

import pytest
import typer
import yaml

from function_gateway.settings import Settings
from surgekit.cli import app
from tests.paths import ROOT

MANIFESTS = ROOT / "manifests" / "load-balancer"


def containers() -> list[dict[str, Any]]:
    spec = yaml.safe_load((MANIFESTS / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    return [*spec["initContainers"], *spec["containers"]]


@pytest.mark.parametrize("name", ["configuration", "balancer"])
def test_the_command_line_takes_the_arguments_of_the_pods(name: str) -> None:
    (container,) = (c for c in containers() if c["name"] == name)
    arguments: list[str] = container["args"]
    command: Any = typer.main.get_command(app)
    context = command.make_context("surgekit", list(arguments))
    while hasattr(command, "resolve_command"):  # a group of commands
        called, command, arguments = command.resolve_command(context, arguments)
        context = command.make_context(called, list(arguments), parent=context)
    assert not context.args, f"left over: {context.args}"


def test_haproxy_is_where_the_settings_say() -> None:
    (haproxy,) = (c for c in containers() if c["name"] == "haproxy")
    defaults = Settings()
    assert haproxy["command"][-1] == str(defaults.directory / "haproxy.cfg")
    (balancer,) = (c for c in containers() if c["name"] == "balancer")
    found = {p["name"]: p["containerPort"] for c in (haproxy, balancer) for p in c["ports"]}
    assert defaults.listen.endswith(f":{found['functions']}")
    assert (found["forwarded"], found["replicas"]) == (defaults.forward_port, defaults.replica_port)
    for container in containers():
        assert str(defaults.directory) in [mount["mountPath"] for mount in container["volumeMounts"]]
