"""The long commands, made short: that they run from end to end and print the figures they promise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from experiments.arrivals import Arrivals, is_bound
from kwok.binaries import Binaries
from kwok.pods import pod, wait_for_account
from kwok.waiting import wait_for
from surgekit.cli import app
from surgekit.kube.client import Kube

pytestmark = pytest.mark.lab


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_bench_extender(binaries: Binaries, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    run("bench", "extender", "--nodes", "60", "--pods", "80", "--rounds", "1", "--json", str(file))
    figures = json.loads(file.read_text())
    assert figures["stock_pods_per_s"] > 0
    for key in ("ratio", "outside_ratio"):
        assert 0 < figures[key]["low"] <= figures[key]["median"] <= figures[key]["high"]
    assert 0 < figures["prioritize_ms_p50"] <= figures["prioritize_ms_p99"]


def test_demo(binaries: Binaries, tmp_path: Path) -> None:
    picture = tmp_path / "demo.png"
    result = run("demo", "--warm-up-s", "8", "--plot", str(picture), "--json", "-")
    played = json.loads(result.stdout)
    for arm in ("stock", "extender"):
        assert sum(played[arm]["placed"].values()) == 200
        assert played[arm]["seconds"] == played[arm]["ready_s"][-1] > 5
    assert played["extender"]["believed_s"], "the probe has published"
    assert played["explained"]["candidates"][0]["tau_create_s"] > 0
    assert picture.stat().st_size > 10_000


def test_lab_up_explain_down(binaries: Binaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURGEKIT_STATE_DIR", str(tmp_path))
    up = json.loads(run("lab", "up", "tried", "--nodes", "3", "--json", "-").stdout)
    try:
        assert up["state"] == "up"
        assert {"probe", "extender", "kube-scheduler", "node-model"} <= set(up["processes"])
        _place_one(Path(up["kubeconfig"]))
        explain = ("explain", "pod", "default/one", "--lab", "tried", "--json", "-")
        # The extender sees the binding through a watch of its own.
        wait_for(lambda: json.loads(run(*explain).stdout)["bound_to"], "the binding is seen")
        said = json.loads(run(*explain).stdout)
        assert said["bound_to"] == said["candidates"][0]["node"]
        shown = run("explain", "pod", "default/one", "--lab", "tried").stdout
        assert said["bound_to"] in shown
        assert "enforce: the scheduler was told that" in shown
        kube = Kube.connect(Path(up["kubeconfig"]))
        place = f"/api/v1/nodes/{said['bound_to']}"
        wait_for(lambda: kube.get(place)["status"]["images"], "the node has the image, pulled in no time")
        refused = CliRunner().invoke(app, ["explain", "pod", "default/other", "--lab", "tried"])
        assert "no decision about default/other" in str(refused.exception)
    finally:
        run("lab", "down", "tried")


def _place_one(kubeconfig: Path) -> None:
    kube = Kube.connect(kubeconfig)
    wait_for_account(kube, "default")
    arrivals = Arrivals(kube, "default", bound=is_bound)
    kube.create(
        "/api/v1/namespaces/default/pods",
        pod("one", "100m", "64Mi", labels={"surgekit.dev/placement": "enforce"}),
    )
    arrivals.wait("bound", 1, 30)
    arrivals.close()
