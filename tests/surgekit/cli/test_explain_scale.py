"""`surgekit explain scale` against an API server of a few policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from hpa_replacement.decision.model import KnownKnee, Spending, State
from surgekit.cli.custom_object import NotThere
from surgekit.cli.explain_scale import explain_scale
from surgekit.kube.client import ApiError, Kube
from tests.hpa_replacement.test_explanation import NOW_S, POINTS, policy, searching

PATH = "/apis/surgekit.dev/v1alpha1/namespaces/shop/kneepolicies"


class Server:
    def __init__(self, *policies: dict[str, Any], installed: bool = True) -> None:
        self._policies, self._installed = policies, installed

    def get(self, path: str) -> dict[str, Any]:
        for one in self._policies:
            if path == f"{PATH}/{one['metadata']['name']}":
                return one
        raise ApiError(404, "NotFound", path)

    def list_all(self, path: str) -> tuple[list[dict[str, Any]], str]:
        if not self._installed:
            raise ApiError(404, "NotFound", path)
        return list(self._policies), "1"


def said(
    capsys: pytest.CaptureFixture[str],
    server: Server,
    json_file: Path | None = None,
    plot: Path | None = None,
) -> str:
    explain_scale(cast(Kube, server), "shop", "cart", json_file, plot)
    return capsys.readouterr().out


def test_a_search_under_way(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "p.png"
    text = said(capsys, Server(policy(searching(POINTS[:2]))), plot=picture)
    assert "shop/cart (Deployment cart, shadow, via scale): 31 replicas asked for, 38 there" in text
    assert "because a\n  because b" in text
    assert "38 of 38 replicas Ready, 13.3/s, 1.5 s, 0 errors/s, CPU 35%; room for 76" in text
    assert "searching (best) in 1..76: 31 (" in text
    assert "next it asks for" in text
    assert "no knee is known" in text
    assert picture.exists()


def test_knees_and_budget(capsys: pytest.CaptureFixture[str]) -> None:
    known = (KnownKnee(5.0, 7.0, 11, inferred=True), KnownKnee(13.0, 20.0, 36, confirmed=True))
    state = State(known=known, evidence=POINTS, spending=Spending(NOW_S, 400.0), asked=36)
    budget = {"replicaIntervals": 1000, "window": "15m"}
    text = " ".join(said(capsys, Server(policy(state, budget=budget))).split())
    assert "budget: 400 of 1000 replica-intervals spent, 600 left" in text
    assert "then hold" in text
    assert "13 20 36 found again" in text
    assert "last search (best) in 1..76: 31" in text


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(said(capsys, Server(policy(searching(POINTS))), json_file=Path("-")))
    assert [p["replicas"] for p in content["points"]] == [31, 12, 60, 45, 38]
    assert content["fit"]["knee"] == content["knee"]


def test_no_such_policy_says_which_there_are() -> None:
    other = policy(State())
    other["metadata"]["name"] = "other"
    with pytest.raises(NotThere, match="no KneePolicy shop/cart; in shop there are: other"):
        explain_scale(cast(Kube, Server(other)), "shop", "cart", None, None)


def test_without_the_crd_it_says_how_to_install_it() -> None:
    with pytest.raises(NotThere, match=r"kubectl apply --server-side -k .*/kneescale installs them"):
        explain_scale(cast(Kube, Server(installed=False)), "shop", "cart", None, None)
