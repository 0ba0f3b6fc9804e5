"""The leader with a Knative target: the revision for balancers, its instance for agents, and numbers for the
stock autoscaler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from burst_plane.knative.statistics import Excess
from burst_plane.model import Function
from tests.burst_plane.knative.objects import Json, burst, knative_service, revision, revision_deployment
from tests.burst_plane.objects import agent_pod, node_object
from tests.burst_plane.world import Plane

RESIZE = Function("shop", "resize")
SERVICE = "/apis/serving.knative.dev/v1/namespaces/shop/services/resize"
BURST = "/apis/surgekit.dev/v1alpha1/namespaces/shop/burstfunctions/resize"


class Told(Plane):
    def __init__(self, monkeypatch: pytest.MonkeyPatch, *objects: Json, **settings: Any) -> None:
        self.said: list[Sequence[Excess]] = []
        super().__init__(monkeypatch, *objects, **({"knative_autoscaler": "autoscaler:8080"} | settings))

    def begin(self) -> None:
        super().begin()
        self.session._say = self.said.append

    @property
    def last(self) -> Excess | None:
        return next((of for of in self.said[-1]), None)

    @property
    def regular(self) -> Json:
        found: Json = self.status()["regular"]
        return found


def objects(**spec: Any) -> tuple[Json, ...]:
    return (
        burst(**spec), knative_service(), revision(), revision_deployment(), node_object(), agent_pod(),
    )  # fmt: skip


@pytest.fixture
def plane(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Told]:
    def make(*given: Json, **settings: Any) -> Told:
        made = Told(monkeypatch, *(given or objects()), **settings)
        made.step()
        made.agent_says()
        made.step()
        made.agent_says(prepared=True)
        made.step()
        return made

    return make


def test_it_overflows_and_its_status_names_the_revision(plane: Callable[..., Told]) -> None:
    made = plane()
    assert made.condition("Overflow") == ("True", "Enforcing")
    assert (made.regular["revision"], made.regular["concurrency"]) == ("resize-00001", 4)
    (wanted,) = made.links.told["n1"]
    assert (wanted.spec.image, wanted.spec.port) == ("registry.example/resize:1", 8080)


def test_the_autoscaler_is_told_of_what_waits_and_of_what_counts(plane: Callable[..., Told]) -> None:
    made = plane()
    made.step(2, arrivals=0, in_regular=4.0, queued=2.0, in_emergency=3.0)
    assert made.last == Excess("shop", "resize-00001", 2.0, 0)  # no history: only the queue
    made.step(20, arrivals=2, started=1, in_regular=4.0, queued=2.0, in_emergency=3.0)
    assert made.last == Excess("shop", "resize-00001", 5.0, 1)  # what is in pods, their queue-proxies say
    assert "told of 5.00 excess requests" in made.regular["reason"]
    assert (made.regular["ready"], made.regular["wanted"]) == (1, 1)
    assert not [call for call in made.api.writes if call.path.endswith("/scale")]


def test_each_second_is_told_once(plane: Callable[..., Told]) -> None:
    made = plane()
    before = len(made.said)
    made.step(30, queued=1.0)
    assert len(made.said) - before == 30


def test_without_reports_it_is_told_nothing(plane: Callable[..., Told]) -> None:
    made = plane()
    made.step(10, arrivals=1, queued=3.0)
    made.step(5)
    assert made.last is not None
    assert not made.last.is_any


def test_requests_that_wait_for_the_first_pod_count_for_a_revision_that_scales_by_requests(
    plane: Callable[..., Told],
) -> None:
    there = [revision(ready=0) if of["kind"] == "Revision" else of for of in objects()]
    made = plane(*there)
    made.step(2, arrivals=3, queued=3.0)
    assert made.last == Excess("shop", "resize-00001", 3.0, 3)


@pytest.mark.parametrize("via", ["knative", "none"])
def test_in_shadow_what_waits_here_is_told(plane: Callable[..., Told], via: str) -> None:
    """Otherwise it would wait in the activator, which tells."""
    made = plane(*objects(mode="shadow", scaling={"via": via}))
    made.step(2, queued=2.0)
    assert made.regular["revision"] == "resize-00001"
    assert (made.last is not None) == (via == "knative")


def test_off_gives_requests_back_to_knative(plane: Callable[..., Told]) -> None:
    made = plane()
    made.api.patch(BURST, {"spec": {"mode": "off"}})
    made.step()
    assert "revision" not in made.regular
    made.step(1, queued=9.0)
    assert made.said[-1] == []
    assert made.condition("Overflow") == ("False", "Off")


def test_a_split_gives_requests_back_and_a_rollout_moves_them(plane: Callable[..., Told]) -> None:
    made = plane(*objects(), revision("resize-00002"), revision_deployment("resize-00002"))
    split = [{"revisionName": f"resize-0000{i}", "percent": 50} for i in (1, 2)]
    made.api.patch(f"{SERVICE}/status", {"status": {"traffic": split}})
    made.step()
    assert made.condition("Eligible") == ("False", "TrafficSplit")
    assert "revision" not in made.regular
    assert made.links.told == {"n1": ()}
    made.api.patch(f"{SERVICE}/status", {"status": {"traffic": [split[1] | {"percent": 100}]}})
    made.step()
    made.step()
    assert made.condition("Eligible") == ("True", "Eligible")
    assert made.regular["revision"] == "resize-00002"


def test_a_revision_has_one_function(plane: Callable[..., Told]) -> None:
    second = burst("younger", "Revision", "resize-00001")
    second["metadata"]["creationTimestamp"] = "2026-11-20T00:00:00Z"
    made = plane(*objects(), second)
    assert made.condition("Eligible", "younger") == ("False", "TargetTaken")
    assert "revision" not in made.status("younger")["regular"]
    assert made.regular["revision"] == "resize-00001"


def test_without_the_setting_knative_is_not_looked_at(plane: Callable[..., Told]) -> None:
    made = plane(knative_autoscaler="")
    assert made.condition("Eligible") == ("False", "NoTarget")
    assert "knative_autoscaler" in made.message("Eligible")
    assert not [call for call in made.api.calls if "knative" in call.path]


def test_an_unreadable_service_stops_no_other(plane: Callable[..., Told]) -> None:
    bad = knative_service(name="bad")
    bad["status"] = {"traffic": [{"revisionName": "../../x", "percent": 100}]}
    made = plane(*objects(), burst("bad", target="bad"), bad)
    assert made.condition("Overflow") == ("True", "Enforcing")
    assert made.condition("Eligible", "bad") == ("False", "NoTarget")


def test_another_deployment_with_the_label_is_not_taken_for_the_revisions(plane: Callable[..., Told]) -> None:
    forged = revision_deployment(image="registry.example/evil:1")
    forged["metadata"] |= {"name": "a-forged-one", "uid": "uid-forged", "ownerReferences": []}
    made = plane(*objects(), forged)
    assert made.links.told["n1"][0].spec.image == "registry.example/resize:1"
