"""The scale of anything, found by discovery; why not, where it cannot be had."""

from __future__ import annotations

from typing import Any, cast

import pytest

from surgekit.kube.client import ApiError, Kube
from surgekit.kube.scale import NotScalable, Scale, Scales
from surgekit.kube.scale_target import ScaleTarget

GROUP = "/apis/example.dev/v1"
RESOURCES = [("geese", "Goose"), ("geese/scale", "Scale"), ("geese/status", "Goose"), ("ponds", "Pond")]
GOOSE = f"{GROUP}/namespaces/shop/geese/gray/scale"
CORE = "/api/v1/namespaces/shop/replicationcontrollers/gray/scale"


class FakeKube:
    def __init__(self) -> None:
        scale = {"spec": {"replicas": 3}, "status": {"selector": "app=gray"}}
        core = [
            ("replicationcontrollers", "ReplicationController"),
            ("replicationcontrollers/scale", "Scale"),
        ]
        self.there: dict[str, Any] = {
            GROUP: {"resources": [{"name": n, "kind": k} for n, k in RESOURCES]},
            "/api/v1": {"resources": [{"name": n, "kind": k} for n, k in core]},
            GOOSE: scale,
            CORE: scale,
        }
        self.asked: list[str] = []

    def get(self, path: str) -> Any:
        self.asked.append(path)
        found = self.there.get(path, ApiError(404, "NotFound", "not found"))
        if isinstance(found, Exception):
            raise found
        return found

    def patch(self, path: str, body: Any) -> Any:
        self.get(path)
        self.there[path] = self.there[path] | body


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


@pytest.fixture
def scales(kube: FakeKube) -> Scales:
    return Scales(cast(Kube, kube))


def target(kind: str = "Goose", name: str = "gray", version: str = "example.dev/v1") -> ScaleTarget:
    return ScaleTarget(version, kind, "shop", name)


def test_any_kind_is_read_and_set(kube: FakeKube, scales: Scales) -> None:
    assert scales.get(target()) == Scale(3, {"app": "gray"})
    scales.set(target(), 5)
    assert scales.get(target()).replicas == 5
    assert kube.asked.count(GROUP) == 1, "what was discovered is remembered"
    assert scales.get(target("ReplicationController", version="v1")).replicas == 3


def test_no_replicas_said_are_none() -> None:
    """Deployments of 0 replicas leave the field out."""
    kube = FakeKube()
    kube.there[GOOSE] = {"spec": {}, "status": {"selector": "app=gray"}}
    assert Scales(cast(Kube, kube)).get(target()).replicas == 0


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
def test_pods_that_cannot_be_found(kube: FakeKube, scales: Scales, selector: str, why: str) -> None:
    kube.there[GOOSE] = {"spec": {"replicas": 3}, "status": {"selector": selector}}
    with pytest.raises(NotScalable, match=why):
        scales.get(target())


def test_what_is_forbidden_is_said_so(kube: FakeKube, scales: Scales) -> None:
    scales.get(target())
    kube.there[GOOSE] = ApiError(403, "Forbidden", "cannot patch resource geese/scale")
    with pytest.raises(NotScalable, match=r"scale of Goose gray is forbidden to us: cannot patch"):
        scales.set(target(), 5)


@pytest.mark.parametrize("path", [GROUP, GOOSE])
def test_a_passing_fault_is_not_taken_for_an_answer(kube: FakeKube, scales: Scales, path: str) -> None:
    there = kube.there[path]
    kube.there[path] = ApiError(503, "ServiceUnavailable", "a moment")
    with pytest.raises(ApiError):
        scales.get(target())
    kube.there[path] = there
    assert scales.get(target()).replicas == 3


def test_a_kind_that_comes_later_is_found(kube: FakeKube, scales: Scales) -> None:
    group = kube.there.pop(GROUP)
    with pytest.raises(NotScalable):
        scales.get(target())
    kube.there[GROUP] = group
    assert scales.get(target()).replicas == 3
