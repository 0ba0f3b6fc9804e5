"""`pip install .` somewhere else: the wheel has everything, and a lab starts from it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from kwok.binaries import Binaries
from tests.packaging.test_package_lists import PACKAGES
from tests.paths import ROOT

PAGE_SOURCE = ROOT / "cluster_view" / "web"
BUILD = "from setuptools import build_meta; print(build_meta.build_wheel('..'))"
FINDS = """
import kwok, surgekit
from cluster_autoscaler_hook.karpenter.strict_catalogue import SHIPPED
from kwok.binaries import GROUPS
from kwok.cluster import stage_files
from experiments.combofunc.workload import EXTRACT as minutes
from kwok.karpenter import process
from experiments.client_trace import EXTRACT as clients
from surgekit.shipped_manifests import MANIFESTS

def mine(path):
    assert path.is_relative_to(sys.prefix), path
    return path

import sys
assert all(mine(file).read_text() for file in (SHIPPED, minutes, clients))
assert [group.key() for group in GROUPS]
assert len(stage_files(True)) > 5 and all(mine(file).read_text() for file in stage_files(True))
assert list(mine(process.CRDS).glob("*nodeclaims.yaml"))
assert list(mine(MANIFESTS).glob("**/kustomization.yaml"))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has our wheel, and our dependencies from this environment."""
    directory = tmp_path_factory.mktemp("wheel")
    source = directory / "source"  # a copy: building leaves files behind
    for name in (*PACKAGES, "manifests"):
        left_out = shutil.ignore_patterns("__pycache__", "*.egg-info", "node_modules")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    built = _run(sys.executable, "-W", "ignore", "-c", BUILD, cwd=source)
    environment = directory / "environment"
    venv.create(environment, with_pip=False)
    made = environment / "bin" / "python"
    packages = Path(_run(made, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    with zipfile.ZipFile(directory / built.split()[-1]) as wheel:
        wheel.extractall(packages)
    # What a .pth file names is searched; .pth files there (our editable installation) are not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return made


def test_every_file_of_the_packages_is_in_the_wheel(python: Path) -> None:
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    files = {
        file.relative_to(ROOT)
        for name in PACKAGES
        for file in (*(ROOT / name).rglob("*"), *_linked(ROOT / name))
        if file.is_file() and "__pycache__" not in file.parts and not file.is_relative_to(PAGE_SOURCE)
    }
    assert len(files) > 300
    assert [str(file) for file in sorted(files) if not (packages / file).is_file()] == []


def test_the_page_is_in_the_wheel_built(python: Path) -> None:
    """Users need no Node.js."""
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    assert (packages / "cluster_view" / "static" / "page.js").is_file()
    assert not (packages / "cluster_view" / "web").exists()


def test_an_installed_surgekit_finds_its_files(python: Path, tmp_path: Path) -> None:
    _run(python, "-c", FINDS, cwd=tmp_path)
    manifests = Path(_run(python, "-m", "surgekit", "manifests", cwd=tmp_path).strip())
    assert manifests.is_relative_to(python.parents[1])
    assert (manifests / "expander" / "kustomization.yaml").is_file()


@pytest.mark.lab
def test_an_installed_surgekit_starts_a_lab(
    python: Path, binaries: Binaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SURGEKIT_STATE_DIR", str(tmp_path))
    try:
        _run(python, "-m", "surgekit", "lab", "up", "wheel", "--nodes", "2", cwd=tmp_path)
        said = _run(
            python,
            "-m",
            "surgekit",
            "lab",
            "kubectl",
            "--lab",
            "wheel",
            "--",
            "get",
            "nodes,crds",
            cwd=tmp_path,
        )
        assert "node-1" in said
        assert "combofuncs.surgekit.dev" in said
    finally:
        _run(python, "-m", "surgekit", "lab", "down", "wheel", cwd=tmp_path)


def _linked(package: Path) -> list[Path]:
    """Python 3.13's rglob does not follow links by itself."""
    return [file for link in package.iterdir() if link.is_symlink() for file in link.rglob("*")]


def _run(*argv: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
