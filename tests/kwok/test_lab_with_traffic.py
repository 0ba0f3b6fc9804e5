"""`surgekit lab up --with traffic,kneescale`, and then nothing but the commands it prints."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kwok.binaries import CORE, PROMETHEUS, Binaries
from kwok.errors import LabError
from kwok.lab import Lab
from kwok.network.namespaces import why_no_namespace
from kwok.traffic.haproxy import find_haproxy
from tests.kwok.printed_commands import bash, printed

pytestmark = [pytest.mark.lab, pytest.mark.long]

POLICY = "/apis/surgekit.dev/v1alpha1/namespaces/functions/kneepolicies/float-operation"


@pytest.fixture
def elsewhere(built: Callable[..., Binaries], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory of its own, while the user's current context is another cluster."""
    if reason := why_no_namespace():
        pytest.skip(reason)
    try:
        find_haproxy()
    except LabError as error:
        pytest.skip(str(error))
    built(*CORE, PROMETHEUS)
    with tempfile.TemporaryDirectory(prefix="sk-") as name:  # short: sockets lie there
        monkeypatch.setenv("SURGEKIT_STATE_DIR", name)
        monkeypatch.setenv("KUBECONFIG", f"{name}/another-cluster")
        yield Path(name)


def test_a_knee_is_found_with_the_commands_that_are_printed(elsewhere: Path) -> None:
    try:
        up = bash(f"{sys.executable} -m surgekit lab up knee --nodes 6 --with kneescale")
        commands = printed(up.stderr)
        lab = Lab.open("knee")
        assert "float-operation" in bash(commands["kubectl"]).stdout
        bash(commands["opt in"])
        labels = lab.kube.get("/api/v1/namespaces/default")["metadata"]["labels"]
        assert labels["surgekit.dev/placement"] == "enforce"
        bash(commands["a knee"])
        lab.wait_for(lambda: bool(_knees(lab)), "a knee is found", 400)
        assert 1 < _knees(lab)[0] <= 60
        explained = bash(commands["explain scale"]).stdout
        assert "functions/float-operation" in explained
        assert re.search(r"\bfound\b", explained)
        bash(commands["more load"])
        refused = bash(commands["more load"].replace("float-operation", "other"), fine=False)
        assert refused.stderr.startswith("error: function: 'other' is not one of float-operation")
    finally:
        bash(f"{sys.executable} -m surgekit lab down knee")
    assert not list(elsewhere.glob("surgekit/labs/*"))


def _knees(lab: Lab) -> list[int]:
    status = lab.kube.get(POLICY).get("status") or {}
    return [knee["replicas"] for knee in status.get("knownKnees") or []]
