"""`surgekit lab up --with limits`, which brings a real node, and then only the commands it prints."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kwok.binaries import Binaries
from kwok.lab import Lab
from tests.kwok.printed_commands import bash, printed

pytestmark = [pytest.mark.lab, pytest.mark.real_node]


def test_functions_on_a_real_node_are_called_and_limited(
    real_node_binaries: Binaries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SURGEKIT_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "another-cluster"))
    try:
        up = bash(f"{sys.executable} -m surgekit lab up real --nodes 2 --with limits")
        commands = printed(up.stderr)
        bash(commands["a real pod"])
        lab = Lab.open("real")
        lab.kubectl("rollout", "status", "deployment/real-function", "--timeout=90s")
        assert "served_ms=50" in bash(commands["lab inside"]).stdout
        bash(commands["limits"])
        lab.kubectl("rollout", "status", "deployment/shop", "--timeout=90s")
        lab.kubectl("wait", "distributedcontainer/shop", "--for=condition=Enforced", "--timeout=90s")
        explained = bash(commands["explain limits"]).stdout
        assert "default/shop" in explained
        assert "shop-" in explained, "a pod's name"
    finally:
        bash(f"{sys.executable} -m surgekit lab down real")
    assert not list(tmp_path.glob("surgekit/labs/*"))
