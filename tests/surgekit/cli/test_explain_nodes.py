"""`surgekit explain nodes` against an API server of a few lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from cluster_autoscaler_hook.karpenter.settings import Settings
from surgekit.cli.explain_nodes import explain_nodes
from surgekit.kube.client import ApiError, Kube
from tests.cluster_autoscaler_hook.karpenter.builders import pod

SETTINGS = Settings(solve_deadline_s=1.0, architectures=("amd64", "arm64"))


class Lists:
    def __init__(self, pods: list[dict[str, Any]], **lists: list[dict[str, Any]]) -> None:
        self._lists = {f"/api/v1/{name}": objects for name, objects in {"pods": pods, **lists}.items()}

    def list_all(self, path: str) -> tuple[list[dict[str, Any]], str]:
        return self._lists.get(path, []), "1"

    def get(self, path: str) -> dict[str, Any]:
        raise ApiError(404, "NotFound", path)


def said(capsys: pytest.CaptureFixture[str], pods: list[dict[str, Any]], as_json: bool) -> str:
    explain_nodes(cast(Kube, Lists(pods)), SETTINGS, Path("-") if as_json else None)
    return " ".join(capsys.readouterr().out.split())


def test_the_plan_stands_beside_its_bound_and_karpenters_first_choice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The mix `uniform` of bench nodes, for which the real Karpenter rented one c6g.9xlarge."""
    pods = [pod(f"web-{i}", "900m", "3Gi") for i in range(20)]
    content = json.loads(said(capsys, pods, as_json=True))["plan"]
    assert content["karpenter_first_choice"] == {"cost_per_hour": 1.314, "classes": {"c6g.9xlarge": 1}}
    assert content["lower_bound_per_hour"] <= content["cost_per_hour"] < 1.314
    text = said(capsys, pods, as_json=False)
    assert "Karpenter would rent 1 x c6g.9xlarge for them at 1.3140 an hour (an estimate" in text
    assert f"{content['cost_per_hour'] / 1.314 - 1:+.1%} with the plan" in text


def test_without_pods_nothing_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Karpenter" not in said(capsys, [], as_json=False)


def test_the_namespaces_label_opts_in_and_the_clusters_architecture_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pods = [pod(f"web-{i}", "900m", "3Gi", schedulingGates=[], tolerations=[]) for i in range(20)]
    namespaces = [{"metadata": {"name": "default", "labels": {"surgekit.dev/nodes": "shadow"}}}]
    nodes = [{"metadata": {"name": "n", "labels": {"kubernetes.io/arch": "amd64"}}}]
    kube = cast(Kube, Lists(pods, namespaces=namespaces, nodes=nodes))
    explain_nodes(kube, Settings(solve_deadline_s=1.0), Path("-"))
    content = json.loads(capsys.readouterr().out)
    assert content["pods"] == 20
    assert content["plan"]["karpenter_first_choice"]["classes"] == {"c6i.8xlarge": 1}
    assert not [n for n in content["plan"]["nodes"] if "g." in n["instance_class"]], "Gravitons are arm64"
    explain_nodes(kube, Settings(solve_deadline_s=1.0), None)
    assert "prices: a sample" in capsys.readouterr().out
