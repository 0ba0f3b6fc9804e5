"""A Deployment's annotation makes a BurstFunction, changes it and takes it away."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from burst_plane.registration import LABEL
from surgekit.kube.client import ApiError
from tests.burst_plane.objects import Json, agent_pod, burst_function, deployment, node_object, service
from tests.burst_plane.world import Plane

DEPLOYMENT = "/apis/apps/v1/namespaces/shop/deployments/resize"


def annotated(mode: str, uid: str = "uid-of-shop-resize") -> Json:
    obj = deployment()
    obj["metadata"] |= {"annotations": {"surgekit.dev/burst": mode}, "uid": uid}
    return obj


@pytest.fixture
def plane(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plane]:
    def make(*objects: Json) -> Plane:
        made = Plane(monkeypatch, *objects, service(), node_object(), agent_pod())
        made.agent_says()
        made.step(4)
        made.step(4)
        return made

    return make


def made_by_us(plane: Plane) -> list[Json]:
    return [o for o in plane.api.objects("burstfunctions") if LABEL in (o["metadata"].get("labels") or {})]


def test_an_annotation_is_enough(plane: Callable[..., Plane]) -> None:
    made = plane(annotated("enforce"))
    (obj,) = made_by_us(made)
    assert obj["spec"]["mode"] == "enforce"
    assert obj["metadata"]["ownerReferences"][0]["uid"] == "uid-of-shop-resize"
    assert made.condition("Overflow") == ("True", "Enforcing")


def test_it_follows_the_annotation_and_goes_with_it(plane: Callable[..., Plane]) -> None:
    made = plane(annotated("enforce"))
    made.api.patch(DEPLOYMENT, {"metadata": {"annotations": {"surgekit.dev/burst": "shadow"}}})
    made.step(4)
    made.step(4)
    assert made.condition("Overflow") == ("True", "Shadow")
    made.api.patch(DEPLOYMENT, {"metadata": {"annotations": None}})
    made.step(4)
    made.step(4)
    assert made.api.objects("burstfunctions") == []
    assert not made.directory.functions


@pytest.mark.parametrize("value", ["", "on", "Enforce", "x" * 10_000])
def test_another_value_asks_for_nothing(plane: Callable[..., Plane], value: str) -> None:
    assert plane(annotated(value)).api.objects("burstfunctions") == []


def test_somebodys_own_function_is_left_alone(plane: Callable[..., Plane]) -> None:
    made = plane(annotated("enforce"), burst_function(mode="shadow", concurrency=7))
    made.api.patch(DEPLOYMENT, {"metadata": {"annotations": None}})
    made.step(4)
    (obj,) = made.api.objects("burstfunctions")
    assert (obj["spec"]["mode"], obj["spec"]["concurrency"]) == ("shadow", 7)


def test_a_deployment_of_the_same_name_gets_one_of_its_own(plane: Callable[..., Plane]) -> None:
    made = plane(annotated("enforce"))
    made.api.add(annotated("enforce", uid="another"))
    for _ in range(3):
        made.step(4)
    (obj,) = made_by_us(made)
    assert obj["metadata"]["ownerReferences"][0]["uid"] == "another"


def test_a_refusal_keeps_nothing_up(plane: Callable[..., Plane]) -> None:
    made = plane(annotated("shadow"))
    other = deployment("other")
    other["metadata"]["annotations"] = {"surgekit.dev/burst": "enforce"}
    made.api.add(other)
    refused = ApiError(403, "Forbidden", "no")
    made.api.fail(refused, times=100, when=lambda c: c.method == "POST" and "burstfunctions" in c.path)
    made.step(4)
    assert made.condition("Overflow") == ("True", "Shadow")
    tries = [c for c in made.api.writes if c.method == "POST" and "burstfunctions" in c.path]
    assert len(tries) == 2  # the first one's, and one that was refused


def test_hundreds_that_are_refused_keep_nobody_waiting(plane: Callable[..., Plane]) -> None:
    """A BurstFunction has no name with a dot; Deployments may."""
    made = plane()
    for i in range(300):
        refused = deployment(f"x.{i}", "a-first")
        refused["metadata"]["annotations"] = {"surgekit.dev/burst": "shadow"}
        made.api.add(refused)
    error = ApiError(422, "Invalid", "must be a DNS label")
    made.api.fail(error, times=10_000, when=lambda c: c.method == "POST" and "/a-first/burst" in c.path)
    made.api.add(annotated("enforce"))
    made.step()
    assert len(made_by_us(made)) == 1
    for _ in range(60):
        made.step(1)
    tries = [c for c in made.api.calls if c.method == "POST" and "/a-first/burst" in c.path]
    assert 300 < len(tries) <= 3 * 300
