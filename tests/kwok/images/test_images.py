"""Which images there are, how they are named, and when one is built again."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml

from kwok import images
from kwok.binaries import CONTAINERS
from kwok.errors import ImageError
from kwok.images import debian, dockerfile, package_index
from tests.paths import ROOT


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    given = tmp_path / "bin"
    given.mkdir()
    for binary in CONTAINERS.packages:
        (given / binary).write_text(binary)
        (given / binary).chmod(0o755)
    return {"SURGEKIT_CACHE_DIR": str(tmp_path), "SURGEKIT_BIN_DIR": str(given)}


def test_the_same_binary_is_packed_once(environ: dict[str, str], tmp_path: Path) -> None:
    first = images.build("pause", environ)
    made = first.stat().st_mtime_ns
    assert images.build("pause", environ) == first
    assert first.stat().st_mtime_ns == made
    (tmp_path / "bin" / "pause").write_text("changed")
    assert images.build("pause", environ) != first
    assert [p.name for p in first.parent.iterdir() if p.suffix not in (".tar", ".lock")] == []


def test_an_image_has_its_own_name(environ: dict[str, str]) -> None:
    assert images.reference("pause").encode() in images.build("pause", environ).read_bytes()
    assert len({images.reference(name) for name in images.NAMES}) == len(images.NAMES)


def test_an_unknown_image_is_refused() -> None:
    with pytest.raises(ImageError, match=r"'docker' is not known: .*pause"):
        images.build("docker")


@pytest.mark.parametrize(
    ("name", "kustomization"),
    [
        ("surgekit", "image"),
        ("haproxy", "load-balancer"),
        ("kube-scheduler", "overlays/second-scheduler"),
    ],
)
def test_names_are_those_of_the_manifests(name: str, kustomization: str) -> None:
    document = yaml.safe_load((ROOT / "manifests" / kustomization / "kustomization.yaml").read_text())
    (entry,) = document["images"]
    full = entry["name"] if "/" in entry["name"] else f"docker.io/library/{entry['name']}"
    assert images.reference(name) == f"{full}:{entry['newTag']}"


def test_a_binary_that_needs_libraries_is_refused(environ: dict[str, str], tmp_path: Path) -> None:
    """The ELF header and one program header, of type PT_INTERP."""
    header = b"\x7fELF\x02" + bytes(27) + (64).to_bytes(8, "little") + bytes(14) + b"\x38\0\x01\0" + bytes(6)
    (tmp_path / "bin" / "pause").write_bytes(header + b"\x03" + bytes(55))
    with pytest.raises(ImageError, match="needs libraries"):
        images.build("pause", environ)
    (tmp_path / "bin" / "pause").write_bytes(header + b"\x01" + bytes(55))
    assert images.build("pause", environ).exists()


@pytest.mark.parametrize("name", ["haproxy", "surgekit"])
def test_what_is_missing_is_said(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"SURGEKIT_CACHE_DIR": str(tmp_path)}
    monkeypatch.setattr(debian.os, "getuid", lambda: 0)  # type: ignore[attr-defined]
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageError, match=rf"image {name}: missing: apt-get install .*mmdebstrap"):
        images.build(name, environ)
    monkeypatch.setattr(debian.os, "getuid", lambda: 1000)  # type: ignore[attr-defined]
    with pytest.raises(ImageError, match=rf"image {name}: only root can build it"):
        images.build(name, environ)


def test_the_key_reads_what_the_build_is_sent() -> None:
    """.dockerignore as it is: sources, but neither lab nor tests nor compiled files."""
    files = {str(file.relative_to(ROOT)) for file in dockerfile.context_files(ROOT)}
    assert {"pyproject.toml", "requirements.lock", "surgekit/cli/lab.py", "manifests/README.md"} <= files
    assert not {name for name in files if name.startswith(("kwok", "experiments", "tests", ".git"))}
    assert not {name for name in files if name.endswith(".pyc") or "__pycache__" in name}


def test_the_machines_index_reaches_pip_and_uv(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".config/pip").mkdir(parents=True)
    (home / ".config/pip/pip.conf").write_text(
        "[global]\nindex-url = https://one.example/simple\nextra-index-url =\n  https://two.example\n  https://three.example\n"
    )
    bundle = tmp_path / "ca.crt"
    bundle.touch()
    environ = {"HOME": str(home), "SSL_CERT_FILE": str(bundle), "PIP_TIMEOUT": "180"}
    mounts = package_index.mounts(tmp_path, environ)
    assert set(mounts.values()) == {"/etc/pip.conf", "/etc/uv/uv.toml", "/etc/ssl/certs/ca-certificates.crt"}
    assert mounts[bundle] == "/etc/ssl/certs/ca-certificates.crt"
    pip = (tmp_path / "pip.conf").read_text().splitlines()
    assert pip[:2] == ["[global]", "cert = /etc/ssl/certs/ca-certificates.crt"]
    assert set(pip[2:]) >= {
        "index-url = https://one.example/simple",
        "extra-index-url = https://two.example https://three.example",
        "timeout = 180",
    }
    uv = tomllib.loads((tmp_path / "uv.toml").read_text())
    assert uv["index-url"] == "https://one.example/simple"
    assert uv["extra-index-url"] == ["https://two.example", "https://three.example"]
    environ["UV_DEFAULT_INDEX"] = "https://four.example"
    package_index.mounts(tmp_path, environ)
    assert tomllib.loads((tmp_path / "uv.toml").read_text())["index-url"] == "https://four.example"
