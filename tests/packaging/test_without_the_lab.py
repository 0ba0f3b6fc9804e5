"""The command line of the production image: no lab, no experiments, nothing that only they need."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from tests.commands import Commands, Ended
from tests.packaging.test_extras import distributions
from tests.surgekit.cli.test_commands_alike import COMMANDS

HIDDEN = ("experiments", "kwok", "matplotlib", "playwright", "pyroute2", "textual", "uvloop")
LAB_GROUPS = ("bench", "demo", "lab", "report")
IN_THE_IMAGE = sorted(words for words in COMMANDS if words[0] not in LAB_GROUPS)


@pytest.fixture(scope="module")
def in_the_image() -> Iterator[Commands]:
    with Commands(HIDDEN) as commands:
        yield commands


@pytest.fixture
def surgekit(in_the_image: Commands, tmp_path: Path) -> Run:
    return Run(in_the_image, tmp_path)


class Run:
    def __init__(self, commands: Commands, home: Path) -> None:
        self._commands, self._home = commands, home

    def __call__(self, *words: str) -> Ended:
        environ = {"HOME": str(self._home), "PATH": "/usr/bin:/bin"}
        return self._commands.run(*words, cwd=self._home, environ=environ)

    def error(self, *words: str) -> str:
        """Run a command that must fail; return the one line it says."""
        done = self(*words)
        assert done.returncode == 1, done.stderr
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        return line


def test_what_only_the_lab_needs_is_hidden() -> None:
    """scipy is not among it: kneed brings it."""
    assert set(HIDDEN) == {"experiments", "kwok"} | (
        distributions("lab") - distributions("parts") - {"scipy"}
    )


@pytest.mark.parametrize(
    "words", [(), ("serve",), ("explain",), ("certificates",), *IN_THE_IMAGE], ids=" ".join
)
def test_help(words: tuple[str, ...], surgekit: Run) -> None:
    done = surgekit(*words, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: surgekit") == 1


def test_version(surgekit: Run) -> None:
    assert surgekit("--version").stdout == f"surgekit {metadata.version('surgekit')}\n"


@pytest.mark.parametrize(
    "words", [("pod", "shop/web"), ("scale", "shop/web"), ("combofunc", "shop/web"), ("nodes",)], ids=" ".join
)
def test_explain_without_a_cluster_says_so(words: tuple[str, ...], surgekit: Run) -> None:
    assert surgekit.error("explain", *words).startswith("error: no cluster to talk to")


@pytest.mark.parametrize(
    "words",
    sorted(words for words in IN_THE_IMAGE if words[0] == "serve"),
    ids=" ".join,
)
def test_serve_without_a_cluster_says_so(words: tuple[str, ...], surgekit: Run, tmp_path: Path) -> None:
    """Imports the whole part, then finds nothing to talk to (the expander: nothing to serve).

    Node agents and the placement ask no API server: they get a setting that cannot be.
    """
    settings = {
        "kneescale": "prometheus_url: http://127.0.0.1:9\n",
        "expander": "catalogue: not-there\n",
        "limit-agent": "controller: nowhere\n",
        "burst-placement": "controller: nowhere\n",
        "pulselet": "subnet: nowhere\n",
    }
    (tmp_path / "settings.yaml").write_text(settings.get(words[1], "{}\n"))
    said = surgekit.error(*words, "--settings", "settings.yaml")
    assert said.startswith(
        (
            "error: no cluster to talk to",
            "error: catalogue 'not-there' cannot be read",
            "error: controller: 'nowhere' is not host:port",
            "error: subnet: 'nowhere' is not an IPv4 network",
        )
    )


def test_certificates_are_made(surgekit: Run, tmp_path: Path) -> None:
    assert surgekit("certificates", "files", "tls", "--host", "localhost").returncode == 0
    assert (tmp_path / "tls" / "ca.crt").is_file()


@pytest.mark.parametrize(
    "words",
    [("lab", "up"), ("bench", "planner"), ("report", "f.json"), ("demo",), ("lab", "--help")],
    ids=" ".join,
)
def test_what_needs_the_lab_says_what_to_install(words: tuple[str, ...], surgekit: Run) -> None:
    expected = f"error: `surgekit {words[0]}` is not installed: pip install 'surgekit[lab]'"
    assert surgekit.error(*words) == expected


def test_so_does_a_lab_by_name(surgekit: Run) -> None:
    said = surgekit.error("explain", "scale", "shop/web", "--lab", "default")
    assert said == "error: kwok is not installed: pip install 'surgekit[lab]'"
