"""The scale of anything, found by discovery; why not, where it cannot be had."""

from __future__ import annotations

import pytest

from surgekit.kube.client import ApiError
from surgekit.kube.scale import NotScalable, Scale, Scales
from surgekit.kube.scale_target import ScaleTarget
from tests.fake_api_server import FakeApiServer, Json, Kind, ScalePaths

GROUP = "/apis/example.dev/v1"
GOOSE = f"{GROUP}/namespaces/shop/geese/gray/scale"


KINDS = (
    Kind("example.dev/v1", "geese", "Goose", custom=True, scale=ScalePaths(selector=".status.selector")),
    Kind("example.dev/v1", "ponds", "Pond", custom=True),
)


METADATA = {"name": "gray", "namespace": "shop"}


def goose(replicas: int, selector: str = "app=gray") -> Json:
    said = {"apiVersion": "example.dev/v1", "kind": "Goose", "metadata": METADATA}
    return said | {"spec": {"replicas": replicas}, "status": {"selector": selector}}


@pytest.fixture
def kube() -> FakeApiServer:
    controller = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": METADATA}
    spec = {"replicas": 3, "selector": {"app": "gray"}}
    return FakeApiServer(goose(3), controller | {"spec": spec}, kinds=KINDS)


@pytest.fixture
def scales(kube: FakeApiServer) -> Scales:
    return Scales(kube)


def target(kind: str = "Goose", name: str = "gray", version: str = "example.dev/v1") -> ScaleTarget:
    return ScaleTarget(version, kind, "shop", name)


def test_any_kind_is_read_and_set(kube: FakeApiServer, scales: Scales) -> None:
    assert scales.get(target()) == Scale(3, {"app": "gray"})
    scales.set(target(), 5)
    assert scales.get(target()).replicas == 5
    asked = [call.path for call in kube.calls]
    assert asked.count(GROUP) == 1, "what was discovered is remembered"
    assert scales.get(target("ReplicationController", version="v1")).replicas == 3


def test_no_replicas_said_are_none(kube: FakeApiServer, scales: Scales) -> None:
    """A Scale of 0 replicas leaves the field out."""
    kube.add(goose(0))
    assert "replicas" not in kube.get(GOOSE)["spec"]
    assert scales.get(target()).replicas == 0


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (target("Pond"), "scaleTargetRef.kind: Pond has no scale subresource"),
        (target("Duck"), "scaleTargetRef.kind: example.dev/v1 has no 'Duck'"),
        (target("Scale"), "scaleTargetRef.kind: example.dev/v1 has no 'Scale'"),
        (target(version="example.dev/v2"), "scaleTargetRef.apiVersion: 'example.dev/v2' is not served"),
        (target(name="white"), "there is no Goose white in shop"),
    ],
)
def test_targets_that_cannot_be_scaled(scales: Scales, asked: ScaleTarget, why: str) -> None:
    for act in (scales.get, lambda t: scales.set(t, 2)):
        with pytest.raises(NotScalable) as error:
            act(asked)
        assert str(error.value) == why


@pytest.mark.parametrize(
    ("selector", "why"),
    [("", "names no selector of its pods"), ("app in (a,b)", "is more than labels and values")],
)
def test_pods_that_cannot_be_found(kube: FakeApiServer, scales: Scales, selector: str, why: str) -> None:
    kube.add(goose(3, selector))
    with pytest.raises(NotScalable, match=why):
        scales.get(target())


def test_what_is_forbidden_is_said_so(kube: FakeApiServer, scales: Scales) -> None:
    scales.get(target())
    kube.fail(ApiError(403, "Forbidden", "cannot patch resource geese/scale"))
    with pytest.raises(NotScalable, match=r"scale of Goose gray is forbidden to us: cannot patch"):
        scales.set(target(), 5)


@pytest.mark.parametrize("path", [GROUP, GOOSE])
def test_a_passing_fault_is_not_taken_for_an_answer(kube: FakeApiServer, scales: Scales, path: str) -> None:
    kube.fail(ApiError(503, "ServiceUnavailable", "a moment"), when=lambda call: call.path == path)
    with pytest.raises(ApiError):
        scales.get(target())
    assert scales.get(target()).replicas == 3


def test_a_kind_that_comes_later_is_found(kube: FakeApiServer, scales: Scales) -> None:
    kube.fail(ApiError(404, "", "404 page not found\n"), when=lambda call: call.path == GROUP)
    with pytest.raises(NotScalable):
        scales.get(target())
    assert scales.get(target()).replicas == 3
