"""`surgekit lab up --with traffic,kneescale`, and then nothing but the commands it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kwok.binaries import Binaries
from kwok.errors import LabError
from kwok.lab import Lab
from kwok.network.namespaces import why_no_namespace
from kwok.traffic.haproxy import find_haproxy

pytestmark = pytest.mark.lab

POLICY = "/apis/surgekit.dev/v1alpha1/namespaces/functions/kneepolicies/float-operation"


@pytest.fixture
def elsewhere(binaries: Binaries, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory of its own, while the user's current context is another cluster."""
    if reason := why_no_namespace():
        pytest.skip(reason)
    try:
        find_haproxy()
    except LabError as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="sk-") as name:  # short: sockets lie there
        monkeypatch.setenv("SURGEKIT_STATE_DIR", name)
        monkeypatch.setenv("KUBECONFIG", f"{name}/another-cluster")
        yield Path(name)


def test_a_knee_is_found_with_the_commands_that_are_printed(elsewhere: Path) -> None:
    try:
        up = _bash(f"{sys.executable} -m surgekit lab up knee --nodes 6 --with kneescale")
        commands = _printed(up.stderr)
        lab = Lab.open("knee")
        assert "float-operation" in _bash(commands["kubectl"]).stdout
        _bash(commands["opt in"])
        labels = lab.kube.get("/api/v1/namespaces/default")["metadata"]["labels"]
        assert labels["surgekit.dev/placement"] == "enforce"
        _bash(commands["a knee"])
        lab.wait_for(lambda: bool(_knees(lab)), "a knee is found", 400)
        assert 1 < _knees(lab)[0] <= 60
        explained = _bash(commands["explain scale"]).stdout
        assert "functions/float-operation" in explained
        assert re.search(r"\bfound\b", explained)
        _bash(commands["more load"])
        refused = _bash(commands["more load"].replace("float-operation", "other"), fine=False)
        assert refused.stderr.startswith("error: function: 'other' is not one of float-operation")
    finally:
        _bash(f"{sys.executable} -m surgekit lab down knee")
    assert not list(elsewhere.glob("surgekit/labs/*"))


def _knees(lab: Lab) -> list[int]:
    status = lab.kube.get(POLICY).get("status") or {}
    return [knee["replicas"] for knee in status.get("knownKnees") or []]


def _printed(text: str) -> Mapping[str, str]:
    """The commands by what stands before them, or by their own words."""
    found = {}
    for line in text.splitlines():
        label, command = line[2:14].strip(), line[14:].strip()
        found[label or " ".join(re.findall(r"surgekit (\w+ \w+)", command))] = command
    return found


def _bash(command: str, fine: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["bash", "-c", command], env=os.environ, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (done.returncode == 0) is fine, done.stderr
    return done
