"""A status gets into the object that it is about, whatever happened to the object meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from surgekit.kube.api_path import Resource
from surgekit.kube.client import ApiError
from surgekit.kube.status import patch_status
from tests.fake_api_server import FakeApiServer

Json = dict[str, Any]
COMBO_FUNCS = Resource("surgekit.dev/v1alpha1", "combofuncs")
PATH = COMBO_FUNCS.path("shop", "web")
STATUS = {"selector": "a=b"}


class Busy(FakeApiServer):
    """Somebody else writes right before us."""

    def __init__(self) -> None:
        super().__init__()
        self.first: Callable[[], object] = lambda: None

    def patch(self, path: str, *args: Any, **kwargs: Any) -> Json:
        if path.endswith("/status"):
            self.first()
        return super().patch(path, *args, **kwargs)


def made(kube: FakeApiServer) -> Json:
    body = {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "ComboFunc",
        "metadata": {"name": "web"},
        "spec": {},
    }
    metadata: Json = kube.create(COMBO_FUNCS.path("shop"), body)["metadata"]
    return metadata


@pytest.fixture
def kube() -> Busy:
    return Busy()


def labelled(kube: Busy, times: int) -> Callable[[], None]:
    """A writer that labels the object so many times."""
    left = iter(range(times))

    def write() -> None:
        if (number := next(left, None)) is not None:
            kube.patch(PATH, {"metadata": {"labels": {"n": str(number)}}})

    return write


@pytest.mark.parametrize("others", [0, 1, 2])
def test_what_others_wrote_meanwhile_does_not_matter(kube: Busy, others: int) -> None:
    metadata = made(kube)
    kube.first = labelled(kube, others)
    assert patch_status(kube, COMBO_FUNCS, metadata, STATUS)["status"] == STATUS
    assert kube.get(PATH)["status"] == STATUS


def test_it_gives_up_when_somebody_writes_without_end(kube: Busy) -> None:
    metadata = made(kube)
    kube.first = labelled(kube, 1000)
    with pytest.raises(ApiError) as raised:
        patch_status(kube, COMBO_FUNCS, metadata, STATUS)
    assert raised.value.overtaken


def test_a_newer_object_of_the_same_name_is_left_alone(kube: Busy) -> None:
    metadata = made(kube)
    kube.delete(PATH)
    made(kube)
    with pytest.raises(ApiError) as raised:
        patch_status(kube, COMBO_FUNCS, metadata, STATUS)
    assert raised.value.overtaken
    assert "status" not in kube.get(PATH)


def test_an_object_that_is_gone_is_not_found(kube: Busy) -> None:
    metadata = made(kube)
    kube.delete(PATH)
    with pytest.raises(ApiError) as raised:
        patch_status(kube, COMBO_FUNCS, metadata, STATUS)
    assert raised.value.code == 404
