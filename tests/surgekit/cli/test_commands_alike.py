"""What holds for every command: one `--json`, and one line that says what to do where there is no cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from kubernetes.config import kube_config
from typer.testing import CliRunner

from surgekit.cli import app
from surgekit.cli.json_file import JsonFile
from surgekit.kube.client import NoCluster
from tests.commands import Commands


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    context = typer.Context(command)
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), (*path, name))


COMMANDS = dict(leaves(typer.main.get_command(app)))


def options(command: Any, name: str) -> list[Any]:
    return [parameter for parameter in command.params if name in parameter.opts]


def test_json_is_the_same_option_everywhere() -> None:
    found = [option for command in COMMANDS.values() for option in options(command, "--json")]
    assert len(found) > 15
    shared = get_args(JsonFile)[1]
    for option in found:
        assert not option.is_flag
        assert option.help == shared.help


def _wants_a_cluster() -> list[tuple[str, ...]]:
    """Commands with --kubeconfig, with what else they must be given."""
    further: dict[tuple[str, ...], tuple[str, ...]] = {
        ("explain", "pod"): ("shop/web",),
        ("explain", "scale"): ("shop/web",),
        ("explain", "combofunc"): ("shop/web",),
        ("explain", "limits"): ("shop/web",),
        ("explain", "burst"): ("shop/web",),
        ("metrics-api", "register"): ("--ca", __file__),
        ("serve", "kneescale"): ("--settings", "kneescale.yaml"),
    }
    found = sorted(path for path, command in COMMANDS.items() if options(command, "--kubeconfig"))
    return [(*path, *further.get(path, ())) for path in found]


def test_every_kind_of_command_is_among_them() -> None:
    groups = {words[0] for words in _wants_a_cluster()}
    assert groups == {"certificates", "explain", "metrics-api", "serve", "top", "ui"}


@pytest.fixture
def no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Neither a kubeconfig nor a pod's own account, wherever this test runs."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", "~/.kube/config")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kneescale.yaml").write_text("prometheus_url: http://127.0.0.1:9\n")
    return tmp_path


@pytest.mark.parametrize("words", _wants_a_cluster(), ids=lambda words: " ".join(words[:2]))
def test_without_a_kubeconfig_one_line_says_what_to_do(words: tuple[str, ...], no_cluster: Path) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    # Our own errors are printed by `main`, as the next test has it; some commands print theirs themselves.
    said = str(result.exception) if isinstance(result.exception, NoCluster) else result.stderr.strip()
    assert "no cluster to talk to" in said
    assert "--kubeconfig" in said
    assert "surgekit lab up" in said
    assert "\n" not in said


def test_such_an_error_is_printed_without_a_traceback(no_cluster: Path, commands: Commands) -> None:
    done = commands.run(
        "serve", "probe", "--kubeconfig", "not-there", cwd=no_cluster, environ={"HOME": str(no_cluster)}
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: no cluster to talk to, not-there cannot be used")
