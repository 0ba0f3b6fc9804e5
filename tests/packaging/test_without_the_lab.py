"""The command line of the production image: no lab, no experiments, nothing that only they need."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.packaging.test_extras import distributions
from tests.paths import ROOT
from tests.surgekit.cli.test_commands_alike import COMMANDS

HIDDEN = ("experiments", "kwok", "matplotlib", "pyroute2", "uvloop")
HIDE = f"""
import sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HIDDEN!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hide())
from surgekit.cli import main
"""
ONE = f"{HIDE}sys.argv[0] = 'surgekit'\nmain()"
# The words of each command are one argument; the answer is the exit codes.
MANY = f"""{HIDE}
codes = {{}}
for words in sys.argv[1:]:
    sys.argv = ["surgekit", *words.split()]
    try:
        main()
    except SystemExit as ended:
        codes[words] = ended.code
print(codes)
"""
LAB_GROUPS = ("bench", "demo", "lab")
IN_THE_IMAGE = sorted(words for words in COMMANDS if words[0] not in LAB_GROUPS)


@pytest.fixture
def surgekit(tmp_path: Path) -> Run:
    return Run(tmp_path)


class Run:
    def __init__(self, home: Path) -> None:
        self._home = home

    def __call__(self, *words: str, script: str = ONE) -> subprocess.CompletedProcess[str]:
        environ = {"HOME": str(self._home), "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
        return subprocess.run(
            [sys.executable, "-c", script, *words],
            env=environ, cwd=self._home, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=90,
        )  # fmt: skip

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


def test_help(surgekit: Run) -> None:
    """In one process: what counts is that each command's module can be imported."""
    commands = [(), ("serve",), ("explain",), ("certificates",), *IN_THE_IMAGE]
    helps = [" ".join((*words, "--help")) for words in commands]
    done = surgekit(*helps, script=MANY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: surgekit") == len(helps)
    assert done.stdout.splitlines()[-1] == str(dict.fromkeys(helps, 0))


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
    """Imports the whole part, then finds nothing to talk to (the expander: nothing to serve)."""
    settings = {"kneescale": "prometheus_url: http://127.0.0.1:9\n", "expander": "catalogue: not-there\n"}
    (tmp_path / "settings.yaml").write_text(settings.get(words[1], "{}\n"))
    said = surgekit.error(*words, "--settings", "settings.yaml")
    assert said.startswith(("error: no cluster to talk to", "error: catalogue 'not-there' cannot be read"))


def test_certificates_are_made(surgekit: Run, tmp_path: Path) -> None:
    assert surgekit("certificates", "files", "tls", "--host", "localhost").returncode == 0
    assert (tmp_path / "tls" / "ca.crt").is_file()


@pytest.mark.parametrize(
    "words", [("lab", "up"), ("bench", "planner"), ("demo",), ("lab", "--help")], ids=" ".join
)
def test_what_needs_the_lab_says_what_to_install(words: tuple[str, ...], surgekit: Run) -> None:
    expected = f"error: `surgekit {words[0]}` is not installed: pip install 'surgekit[lab]'"
    assert surgekit.error(*words) == expected


def test_so_does_a_lab_by_name(surgekit: Run) -> None:
    said = surgekit.error("explain", "scale", "shop/web", "--lab", "default")
    assert said == "error: kwok is not installed: pip install 'surgekit[lab]'"
