"""`surgekit lab up --with knative`, and then nothing but the commands it prints."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kwok import knative
from kwok.binaries import CORE, Binaries
from kwok.lab import Lab
from kwok.network_namespace import namespace_path
from tests.kwok.printed_commands import bash, printed

pytestmark = [pytest.mark.lab, pytest.mark.long]

HOST = f"hello.default.{knative.DOMAIN}"


@pytest.fixture
def elsewhere(built: Callable[..., Binaries], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory of its own, while the user's current context is another cluster."""
    if reason := knative.why_no_knative():
        pytest.skip(reason)
    built(*CORE, *knative.BINARIES)
    with tempfile.TemporaryDirectory(prefix="sk-") as name:
        monkeypatch.setenv("SURGEKIT_STATE_DIR", name)
        monkeypatch.setenv("KUBECONFIG", f"{name}/another-cluster")
        yield Path(name)


def test_a_function_is_called_with_the_commands_that_are_printed(elsewhere: Path) -> None:
    try:
        up = bash(f"{sys.executable} -m surgekit lab up serving --nodes 4 --with knative")
        commands = printed(up.stderr)
        lab = Lab.open("serving")
        serving = knative.find(lab)
        assert serving
        serving.wait_until_ready("hello")
        assert bash(commands["by hand"]).stdout.startswith("hello-00001-deployment-")
        assert "hello-00001" in bash(commands["functions"]).stdout
        bash(commands["load"])
        lab.wait_for(lambda: serving.traffic.sample()[HOST].answered > 100, "requests are answered")
        refused = bash(commands["load"].replace("hello", "other"), fine=False)
        assert refused.stderr.startswith("error: lab 'serving' has no Knative Service 'other'")
    finally:
        bash(f"{sys.executable} -m surgekit lab down serving")
    assert not list(elsewhere.glob("surgekit/labs/*"))
    left = namespace_path(elsewhere / "surgekit" / "labs" / "serving", "*")
    assert not list(left.parent.glob(left.name))
