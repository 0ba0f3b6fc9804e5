"""`surgekit explain nodes` against an API server of a few lists."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from cluster_autoscaler_hook.karpenter.settings import Settings
from surgekit.cli.explain_nodes import explain_nodes
from surgekit.kube import ApiError, Kube
from tests.cluster_autoscaler_hook.karpenter.builders import pod


class Lists:
    def __init__(self, pods: list[dict[str, Any]]) -> None:
        self._lists = {"/api/v1/pods": pods}

    def list_all(self, path: str) -> tuple[list[dict[str, Any]], str]:
        return self._lists.get(path, []), "1"

    def get(self, path: str) -> dict[str, Any]:
        raise ApiError(404, "NotFound", path)


def said(capsys: pytest.CaptureFixture[str], pods: list[dict[str, Any]], as_json: bool) -> str:
    explain_nodes(cast(Kube, Lists(pods)), Settings(solve_deadline_s=1.0), as_json)
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
