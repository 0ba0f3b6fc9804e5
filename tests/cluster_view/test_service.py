"""What is asked besides the API server, the extender and Prometheus, and what if they do not answer."""

from __future__ import annotations

import time
from typing import Any

import pytest
from structlog.testing import capture_logs

from cluster_view.poller import Poller
from cluster_view.service import Extender, View
from cluster_view.settings import Settings
from surgekit.errors import UserError
from surgekit.prometheus import client
from tests.cluster_view import objects
from tests.readers.test_readers_are_total import KUBE

Json = dict[str, Any]


def view(settings: Settings, since: Any = lambda _: []) -> View:
    return View(KUBE, "test", settings, {}, Extender(lambda _: {}, since, 0.01))


def seen(of: View) -> Json:
    of.sources.apply()
    of.state.change(time.time())
    return dict(of.state.snapshot(time.time()))


def test_a_decision_heard_twice_is_told_once() -> None:
    asked: list[float] = []

    def since(since_s: float) -> list[Json]:
        asked.append(since_s)
        return [objects.placement("a", {"n0": 0.4}, mode="enforce", bound_to="n0")]

    made = view(Settings(), since)
    for _ in range(3):
        made._ask_extender()
    made.sources.apply()
    made.state.change(time.time())
    made.state.change(time.time() + 10.0)  # nobody knows this pod, so nobody waits for its node any longer
    assert len(list(made.state.snapshot(0.0)["decisions"])) == 1
    assert asked[0] < 0 < asked[1] == asked[2] < objects.START_S


def test_an_answer_without_sense_is_left_out() -> None:
    made = view(Settings(), lambda _: [{"decided_at": 1.0, "pod": {"uid": "x"}}])
    made._ask_extender()
    with capture_logs() as logs:
        assert seen(made)["decisions"] == []
    assert [log["event"] for log in logs] == ["change not taken"]


class Answers:
    """In place of Prometheus."""

    values_: Any = None

    def __init__(self, *_: Any) -> None: ...

    def values(self, query: str, at_s: float) -> Any:
        if isinstance(self.values_, Exception):
            raise self.values_
        return self.values_


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ({frozenset(): 12.5}, 12.5),
        ({}, None),
        ({frozenset({("a", "b")}): 1.0, frozenset(): 2.0}, None),
        (client.QueryFailed("down"), None),
    ],
)
def test_requests_per_second(monkeypatch: pytest.MonkeyPatch, answer: Any, shown: float | None) -> None:
    monkeypatch.setattr(client, "Prometheus", Answers)
    monkeypatch.setattr(Answers, "values_", answer)
    made = view(Settings(prometheus_url="http://prometheus"))
    made.state.requests_per_s = 1.0
    traffic = made._pollers[1]._ask
    try:
        traffic()
    except (UserError, client.QueryFailed):
        assert shown is None
    assert seen(made)["head"]["requests_per_s"] == shown


def test_without_prometheus_nobody_is_asked() -> None:
    assert len(view(Settings())._pollers) == 1


def test_failures_in_a_row_are_logged_once_and_asked_less() -> None:
    calls: list[float] = []

    def ask() -> None:
        calls.append(time.monotonic())
        if len(calls) > 4:
            poller.stop()
        raise UserError("nobody there")

    poller = Poller("extender", ask, 0.001)
    with capture_logs() as logs:
        poller._run()
    assert len(calls) == 5
    assert [log["event"] for log in logs] == ["no answer"]
