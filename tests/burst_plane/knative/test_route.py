"""Which revision a function's requests go to, by what Knative says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst_plane.burst_function import SpecError, Via, read
from burst_plane.knative.objects import read_revision, read_service
from burst_plane.knative.route import NotRouted, Route, route
from tests.burst_plane.knative.objects import Json, burst, knative_service, revision
from tests.readers.hostile_objects import spoilt


def routed(service: Json, *revisions: Json, **spec: Any) -> Route | NotRouted:
    services = {service["metadata"]["name"]: read_service(service)}
    known = {of["metadata"]["name"]: read_revision(of) for of in revisions}
    return route(read(burst(**spec)), services.get, known.get)


def test_the_one_revision_with_all_traffic() -> None:
    found = routed(knative_service(), revision(ready=3))
    assert found == Route("shop", "resize-00001", "uid-resize-00001", 4, 3, 3)


def test_a_tag_without_traffic_and_a_revision_named_twice_are_no_split() -> None:
    traffic: list[Json] = [
        {"revisionName": "resize-00002", "percent": 60},
        {"revisionName": "resize-00001", "tag": "old"},
        {"revisionName": "resize-00001", "tag": "older", "percent": 0},
        {"revisionName": "resize-00002", "tag": "new", "percent": 40},
    ]
    found = routed(knative_service(*traffic), revision("resize-00002"))
    assert isinstance(found, Route)
    assert found.revision == "resize-00002"


SPLIT = [{"revisionName": f"resize-0000{i}", "percent": 50} for i in (1, 2)]


@pytest.mark.parametrize(
    ("service", "revisions", "reason", "text"),
    [
        (knative_service(*SPLIT), [revision()], "TrafficSplit", "resize-00001, resize-00002"),
        (knative_service({"percent": 0}), [revision()], "TrafficSplit", "no revision yet"),
        (knative_service(name="other"), [revision()], "NoTarget", "no Knative Service resize"),
        (knative_service(), [], "NoTarget", "no Revision resize-00001"),
        (knative_service(), [revision(port="h2c")], "CannotBeHonoured", "HTTP/2"),
    ],
)
def test_whatever_else_keeps_knatives_own_way(
    service: Json, revisions: list[Json], reason: str, text: str
) -> None:
    found = routed(service, *revisions)
    assert isinstance(found, NotRouted)
    assert (found.reason, text in found.message) == (reason, True)


@pytest.mark.parametrize(("container", "own", "concurrency"), [(4, 9, 4), (0, 9, 9), (None, 1, 1)])
def test_a_revisions_own_limit_holds(container: int | None, own: int, concurrency: int) -> None:
    found = routed(knative_service(), revision(containerConcurrency=container), concurrency=own)
    assert isinstance(found, Route)
    assert found.concurrency == concurrency


def test_a_revision_may_be_the_target_itself() -> None:
    found = routed(knative_service(*SPLIT), revision(), kind="Revision", target="resize-00001")
    assert isinstance(found, Route)


@given(data=st.data())
def test_nonsense_has_no_row(data: st.DataObject) -> None:
    for reader, original in ((read_service, knative_service()), (read_revision, revision())):
        try:
            found = reader(data.draw(spoilt(original)))
        except (ValueError, TypeError, AttributeError, KeyError):
            continue
        assert found is not None


def test_who_sets_the_number_depends_on_the_target() -> None:
    assert read(burst()).via is Via.KNATIVE
    assert read(burst(scaling={"via": "none"})).via is Via.NONE
    with pytest.raises(SpecError, match="scale is not for a target of serving"):
        read(burst(scaling={"via": "scale"}))
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "resize"}
    assert read(burst(targetRef=deployment)).via is Via.SCALE
    with pytest.raises(SpecError, match="knative is not for a target of apps/v1"):
        read(burst(targetRef=deployment, scaling={"via": "knative"}))
