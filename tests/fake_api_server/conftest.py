"""Runs each test on the fake API server and on the real one, so that the fake stays true."""

from __future__ import annotations

import pytest

from kwok.lab import Lab
from surgekit.kube.client import Kube
from tests.fake_api_server import FakeApiServer
from tests.fake_api_server.both import Api
from tests.paths import MANIFESTS

CRD = MANIFESTS / "combofunc" / "combofunc.yaml"


@pytest.fixture(scope="module")
def real_kube(request: pytest.FixtureRequest) -> Kube:
    lab: Lab = request.getfixturevalue("lab")
    lab.apply(CRD)
    return lab.kube


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.lab)])
def api(request: pytest.FixtureRequest) -> Api:
    if request.param == "fake":
        return Api(FakeApiServer(), "test")
    return Api(request.getfixturevalue("real_kube"), request.getfixturevalue("namespace"))
