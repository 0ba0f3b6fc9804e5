"""Finding and making binaries, with a stand-in for the Go build."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kwok.binaries import CORE, ETCD, KUBERNETES, KWOK, Binaries, Group, build, groups, release
from kwok.errors import BinariesError


def fake_build(group: Group, into: Path, environ: object) -> None:
    with (into.parent / "builds").open("a") as journal:
        journal.write(f"{group.name}\n")
    time.sleep(0.3)
    for binary in group.packages:
        (into / binary).touch(mode=0o755)


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(build, "build", fake_build)
    return {"SURGEKIT_CACHE_DIR": str(tmp_path)}


def builds(tmp_path: Path) -> list[str]:
    journal = tmp_path / "surgekit" / "bin" / "builds"
    return journal.read_text().split() if journal.exists() else []


def test_a_group_is_built_when_first_used_and_only_then(environ: dict[str, str], tmp_path: Path) -> None:
    found = Binaries(environ)
    assert builds(tmp_path) == []
    assert found.path("etcd").name == "etcd"
    assert found.path("etcd") == Binaries(environ).path("etcd")
    assert builds(tmp_path) == ["etcd"]


def test_two_builders_build_once(environ: dict[str, str], tmp_path: Path) -> None:
    forking = multiprocessing.get_context("fork")  # the stand-in must be inherited
    workers = [forking.Process(target=lambda: Binaries(environ).path("etcd")) for _ in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert builds(tmp_path) == ["etcd"]


def test_a_failed_build_leaves_nothing(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(group: Group, into: Path, environ: object) -> None:
        (into / "half").touch()
        raise BinariesError("no space left")

    monkeypatch.setattr(build, "build", fail)
    with pytest.raises(BinariesError, match="no space left"):
        Binaries(environ).path("etcd")
    assert [p.name for p in (tmp_path / "surgekit" / "bin").iterdir() if not p.name.endswith(".lock")] == []


def test_a_given_directory_must_be_complete(tmp_path: Path) -> None:
    for binary in ("kube-apiserver", "kube-controller-manager", "kubectl"):
        (tmp_path / binary).touch(mode=0o755)
    with pytest.raises(BinariesError, match=f"kube-scheduler is not in {tmp_path}"):
        Binaries({"SURGEKIT_BIN_DIR": str(tmp_path)}).path("kubectl")


@pytest.mark.parametrize(
    ("environ", "binary", "said"),
    [
        ({"SURGEKIT_BIN_SOURCE": "steal"}, "etcd", "SURGEKIT_BIN_SOURCE: 'steal'"),
        ({}, "docker", "no group builds 'docker'"),
    ],
)
def test_errors_name_what_is_wrong(environ: dict[str, str], binary: str, said: str) -> None:
    with pytest.raises(BinariesError, match=said):
        Binaries(environ).path(binary)


def test_the_key_follows_sources_and_flags(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keys = {group.key() for group in CORE}
    keys.add(Group("etcd", ETCD.packages, "-s").key())
    keys.add(Group("etcd", ETCD.packages, tags=("small",)).key())
    monkeypatch.setattr(groups, "_MODULES", tmp_path)
    (tmp_path / "etcd").mkdir()
    for file in ("go.mod", "go.sum"):
        (tmp_path / "etcd" / file).write_text("changed")
    keys.add(ETCD.key())
    assert len(keys) == 6


def test_download_takes_what_kwokctl_lists(tmp_path: Path) -> None:
    """With a stand-in for kwokctl and files for addresses; the real hosts cannot be reached here."""
    for binary in KUBERNETES.packages:
        (tmp_path / binary).write_text(binary)
    kwokctl = tmp_path / "kwokctl"
    listing = "\n".join((tmp_path / binary).as_uri() for binary in (*KUBERNETES.packages, "prometheus"))
    kwokctl.write_text(f"#!/bin/sh\ncat <<END\n{listing}\nEND\n")
    kwokctl.chmod(0o755)
    into = tmp_path / "into"
    into.mkdir()
    release.download(KUBERNETES, into, kwokctl)
    assert {file.name for file in into.iterdir()} == set(KUBERNETES.packages)
    assert (into / "kubectl").read_text() == "kubectl"


@pytest.mark.lab
@pytest.mark.parametrize("group", [ETCD, KWOK, KUBERNETES], ids=lambda g: g.name)
def test_built_binaries_run(group: Group, binaries: Binaries) -> None:
    version = {"etcd": "--version", "kubectl": "version --client"}
    for binary in group.packages:
        argv: list[str | Path] = [binaries.path(binary), *version.get(binary, "--version").split()]
        assert subprocess.run(argv, capture_output=True, check=False, timeout=30).returncode == 0


@pytest.mark.lab
def test_setup_says_where_they_are(binaries: Binaries) -> None:
    done = subprocess.run([sys.executable, "-m", "kwok.binaries"], capture_output=True, text=True, check=True)
    assert str(binaries.directory(KWOK)) in done.stdout.splitlines()
