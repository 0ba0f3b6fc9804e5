"""`surgekit metrics-api` against an API server of two APIServices."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from hpa_replacement.adapter.discovery import CUSTOM, EXTERNAL
from hpa_replacement.adapter.registration import Service, api_service
from surgekit import cli
from surgekit.kube.client import ApiError, Kube

CA = b"a CA"


class Cluster:
    def __init__(self, *there: dict[str, Any]) -> None:
        self._there = {obj["metadata"]["name"]: obj for obj in there}
        self.made: list[str] = []

    def get(self, path: str) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        if name not in self._there:
            raise ApiError(404, "NotFound", path)
        return self._there[name]

    def create(self, path: str, body: dict[str, Any]) -> None:
        self.made.append(body["metadata"]["name"])


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cluster: Cluster, *words: str
) -> tuple[object, str]:
    """Exit code and what was printed, either way."""
    monkeypatch.setattr(Kube, "connect", lambda _: cluster)
    monkeypatch.setattr(sys, "argv", ["surgekit", "metrics-api", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr()
    return ended.value.code, " ".join((printed.out + printed.err).split())


@pytest.fixture
def ca(tmp_path: Path) -> str:
    file = tmp_path / "ca.crt"
    file.write_bytes(CA)
    return str(file)


def test_status_says_whose_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ca: str
) -> None:
    cluster = Cluster(api_service(CUSTOM, Service(), b"an old CA"))
    code, text = run(monkeypatch, capsys, cluster, "status")
    assert code == 0
    assert "nobody: APIService v1beta1.external.metrics.k8s.io does not exist" in text
    assert text.endswith("ours: APIService v1beta2.custom.metrics.k8s.io is ours")
    assert "with another port or CA" in run(monkeypatch, capsys, cluster, "status", "--ca", ca)[1]


def test_register_makes_both_or_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ca: str
) -> None:
    cluster = Cluster()
    code, text = run(monkeypatch, capsys, cluster, "register", "--ca", ca)
    assert code == 0
    assert f"{EXTERNAL}: registered" in text
    assert cluster.made == ["v1beta1.external.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io"]
    one = Cluster()
    run(monkeypatch, capsys, one, "register", "--ca", ca, "--group", CUSTOM)
    assert one.made == ["v1beta2.custom.metrics.k8s.io"]


def test_anothers_is_refused_in_its_words_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ca: str
) -> None:
    cluster = Cluster(api_service(EXTERNAL, Service("keda", "keda-metrics", 443), CA))
    code, text = run(monkeypatch, capsys, cluster, "register", "--ca", ca)
    assert code == 1
    assert "belongs to service keda/keda-metrics and is left alone" in text
    assert cluster.made == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--service", "adapter"], "'adapter': must be NAMESPACE/NAME:PORT"),
        (["--service", "a/b:0"], "must be NAMESPACE/NAME:PORT"),
        (["--group", "metrics.k8s.io"], "must be external.metrics.k8s.io or"),
    ],
)
def test_bad_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ca: str, words: list[str], said: str
) -> None:
    code, text = run(monkeypatch, capsys, Cluster(), "register", "--ca", ca, *words)
    assert code == 2
    assert said in text.replace("│ ", "").replace(" │", "")
