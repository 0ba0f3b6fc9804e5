"""Images built for real, and run as the manifests run them: not as root, on a read-only root.

A process in a chroot stands for the container; on the real node the same images are pods.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kwok import images
from kwok.binaries import Binaries
from kwok.errors import ImageError
from kwok.images import debian, static

pytestmark = pytest.mark.lab

# The mounts end with the process.
ENTER = (
    'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec chroot --userspec=65532:65532 "$0" "$@"'
)


@dataclass(frozen=True)
class Unpacked:
    archive: Path
    root: Path
    config: dict[str, Any]

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        inside = ["/usr/bin/env", "-i", *self.config["Env"], *argv]
        return subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, self.root, *inside],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    def say(self, *argv: str) -> str:
        done = self.run(*argv)
        assert done.returncode == 0, done.stderr
        return done.stdout


def unpack(archive: Path, root: Path) -> Unpacked:
    with tarfile.open(archive) as opened:

        def blob(descriptor: dict[str, Any]) -> Any:
            return opened.extractfile("blobs/sha256/" + descriptor["digest"].removeprefix("sha256:"))

        index = json.load(opened.extractfile("index.json"))  # type: ignore[arg-type]  # it is a file
        manifest = json.load(blob(index["manifests"][0]))
        config = json.load(blob(manifest["config"]))["config"]
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=blob(layer)) as content:
                content.extractall(root, filter="fully_trusted")  # noqa: S202  # built a moment ago
    return Unpacked(archive, root, config)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Unpacked]]:
    """Builds an image and unpacks it, once for the tests of this file."""
    built: dict[str, Unpacked] = {}

    def get(name: str) -> Unpacked:
        try:
            debian.need(name, "buildah", "mmdebstrap")
        except ImageError as reason:
            pytest.skip(str(reason))
        if name not in built:
            built[name] = unpack(images.build(name), tmp_path_factory.mktemp(name))
        return built[name]

    yield get
    for unpacked in built.values():
        subprocess.run(["rm", "--recursive", "--one-file-system", unpacked.root], check=True)


@pytest.fixture
def surgekit(build: Callable[[str], Unpacked]) -> Unpacked:
    return build("surgekit")


def test_surgekit_runs_as_the_manifests_run_it(surgekit: Unpacked) -> None:
    assert surgekit.config["User"] == "65532:65532"
    assert surgekit.config["Entrypoint"] == ["surgekit"]
    assert surgekit.say("surgekit", "--version") == "surgekit 0.1.0\n"
    assert "load-balancer" in surgekit.say("surgekit", "serve", "--help")
    assert surgekit.say("id", "-u") == "65532\n"
    assert surgekit.run("touch", "/opt/surgekit/new").returncode != 0


def test_surgekit_has_every_part_and_no_lab(surgekit: Unpacked) -> None:
    script = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
    parts = [
        "scheduler_extender",
        "combofunc",
        "function_gateway",
        "hpa_replacement",
        "cluster_autoscaler_hook",
    ]
    lab = ["kwok", "experiments", "tests", "matplotlib", "pyroute2", "uvloop", "pytest"]
    assert surgekit.say("python", "-c", script, *parts, *lab) == f"{parts}\n"
    # Wheels with libraries: what they expect of the system is there.
    surgekit.say("python", "-c", "import cryptography, grpc, highspy, numpy, orjson, scipy")


def test_surgekit_starts_from_compiled_files(surgekit: Unpacked) -> None:
    """Files whose times were changed count as stale, and every start would compile them again."""
    said = surgekit.run("python", "-v", "-c", "import json, kubernetes, surgekit.cli").stderr
    assert "# code object from" in said
    assert "bytecode is stale" not in said


def test_surgekit_keeps_nothing_of_the_machine(surgekit: Unpacked) -> None:
    """The build was given the machine's package index and CA bundle; neither is left."""
    for mounted in ("etc/pip.conf", "etc/uv", "src", "root/.cache"):
        assert not (surgekit.root / mounted).exists()
    ours = surgekit.root / "etc/ssl/certs/ca-certificates.crt"
    names = (surgekit.root / "etc/ca-certificates.conf").read_text().split()
    assert ours.read_text().count("BEGIN CERTIFICATE") == sum(name.startswith("mozilla/") for name in names)


def test_haproxy_checks_a_configuration(build: Callable[[str], Unpacked]) -> None:
    haproxy = build("haproxy")
    assert "version 2.6." in haproxy.say("haproxy", "-v")
    (haproxy.root / "try.cfg").write_text(
        "defaults\n mode http\n timeout client 1s\nfrontend f\n bind :8000\n"
    )
    assert haproxy.run("haproxy", "-c", "-f", "/try.cfg").returncode == 0
    haproxy.say("sh", "-c", "sleep 0")  # the manifests' preStop


def test_kube_scheduler_needs_nothing_else(binaries: Binaries, tmp_path: Path) -> None:
    if static.is_dynamic(binaries.path("kube-scheduler")):
        pytest.skip(
            "the lab's kube-scheduler was built with cgo and needs libraries: delete it from the cache"
        )
    image = unpack(images.build("kube-scheduler"), tmp_path)
    assert [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()] == [
        "usr/local/bin/kube-scheduler"
    ]
    done = subprocess.run(
        [tmp_path / "usr/local/bin/kube-scheduler", "--version"], capture_output=True, text=True, check=True
    )
    assert images.reference("kube-scheduler").endswith(done.stdout.split()[-1])
    assert image.config["Env"] == ["PATH=/usr/local/bin"]
