"""One replica: decides while it leads and knows the cluster, and starts afresh each term."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from hpa_replacement import controller as module
from hpa_replacement.controller import Controller
from hpa_replacement.settings import Settings
from surgekit.kube.client import Kube
from surgekit.prometheus.client import Queries
from tests.events_at_once import unreadable


class FakeLease:
    held, alive, term = True, True, 1

    def __init__(self, *_: Any) -> None:
        pass

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self.held = False


class FakeSource:
    age_s = 0.0  # of all: a controller has one

    def __init__(self, *_: Any) -> None:
        self.unreadable = unreadable()

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def ages_s(self, now_s: float) -> dict[str, float]:
        return {"pods": self.age_s}


class FakeReconciler:
    terms: list[FakeReconciler]
    fault: Exception | None = None

    def __init__(self, *_: Any) -> None:
        self.count, self.stopped = 0, False
        FakeReconciler.terms.append(self)

    def reconcile_due(self, now_s: float) -> float:
        self.count += 1
        if FakeReconciler.fault:
            raise FakeReconciler.fault
        return 0.01

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Iterator[Controller]:
    monkeypatch.setattr(module, "Lease", FakeLease)
    monkeypatch.setattr(module, "ClusterSource", FakeSource)
    monkeypatch.setattr(module, "PolicyReconciler", FakeReconciler)
    FakeReconciler.terms, FakeReconciler.fault = [], None
    controller = Controller(Settings(), cast(Kube, None), cast(Queries, None))
    controller.start()
    yield controller
    controller.stop()


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline_s, "not within 10 s"
        time.sleep(0.01)


def reconciling_goes_on() -> None:
    before = FakeReconciler.terms[-1].count
    until(lambda: FakeReconciler.terms[-1].count > before + 1)


def test_each_term_as_leader_starts_afresh(controller: Controller) -> None:
    until(lambda: bool(FakeReconciler.terms))
    lease = cast(FakeLease, controller.lease)
    lease.held = False
    until(lambda: FakeReconciler.terms[0].stopped)
    lease.held = True
    until(lambda: len(FakeReconciler.terms) == 2)
    reconciling_goes_on()
    leader = controller.registry.get_sample_value
    assert leader("surgekit_kneescale_leader") == 1.0


def test_without_word_from_the_api_server_nothing_is_decided(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(lambda: bool(FakeReconciler.terms))
    monkeypatch.setattr(FakeSource, "age_s", 61.0)
    until(lambda: FakeReconciler.terms[0].stopped)
    assert controller.not_ready(time.monotonic()) == "no word of pods for 61 s"
    assert controller.alive(time.monotonic()), "it is the API server's fault, not ours"
