"""`surgekit explain limits` against an API server of one DistributedContainer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from limit_allocator.pod import LeaveAlone
from surgekit.cli.custom_object import NotThere
from surgekit.cli.explain_limits import explain_limits
from surgekit.kube.client import ApiError, Kube
from tests.limit_allocator import test_status as status
from tests.limit_allocator.objects import distributed_container, pod

PATH = "/apis/surgekit.dev/v1alpha1/namespaces/shop/distributedcontainers"


class Server:
    def __init__(self, *objects: dict[str, Any], installed: bool = True) -> None:
        self._objects, self._installed = objects, installed

    def get(self, path: str) -> dict[str, Any]:
        for one in self._objects:
            if path == f"{PATH}/{one['metadata']['name']}":
                return one
        raise ApiError(404, "NotFound", path)

    def list_all(self, path: str) -> tuple[list[dict[str, Any]], str]:
        if not self._installed:
            raise ApiError(404, "NotFound", path)
        return list(self._objects), "1"


def said(capsys: pytest.CaptureFixture[str], server: Server, json_file: Path | None = None) -> str:
    explain_limits(cast(Kube, server), "shop", "web", json_file)
    return capsys.readouterr().out


def decided() -> dict[str, Any]:
    app = replace(status.APPLICATION, left_alone=((pod("a"), LeaveAlone.NO_LIMITS),))
    return distributed_container() | {"status": status.said(app)}


def test_sentences_a_table_and_a_picture(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, Server(decided()))
    assert "shop/web (enforce): 1 containers of 1 pods share 4000m CPU and 1024Mi" in text
    assert "allocated 1500m CPU and 256Mi, used 200m CPU and 100Mi, unallocated 2500m CPU and 768Mi" in text
    assert "7 memory events survived and 1 OOM kills" in text
    assert "Enforced True (Enforcing): the limits of 1 containers follow need" in text
    assert "1 pods are left alone: NoLimits, such as a" in text
    (row,) = [line for line in text.splitlines() if "p/c" in line]
    assert [word in row for word in ("500m", "200m", "25 %", "128Mi", "100Mi")] == [True] * 5
    assert "CPU limits    █ 1500m of 1500m" in text
    assert "memory used   ▄ 100Mi of 256Mi" in text


def test_a_mode_that_the_controller_does_not_grant(capsys: pytest.CaptureFixture[str]) -> None:
    obj = decided()
    obj["status"]["mode"] = "shadow"
    assert "shop/web (shadow, not enforce)" in said(capsys, Server(obj))


def test_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said(capsys, Server(decided()), tmp_path / "f.json")
    content = json.loads((tmp_path / "f.json").read_text())
    assert content["containers"][0]["cpu_millicores"] == 500
    assert content["limit"] == {"cpu": "4000m", "memory": "1024Mi"}


def test_where_there_is_none_it_says_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotThere, match="in shop there are: other"):
        said(capsys, Server(distributed_container("other")))
    with pytest.raises(NotThere, match="knows no distributedcontainers"):
        said(capsys, Server(installed=False))
