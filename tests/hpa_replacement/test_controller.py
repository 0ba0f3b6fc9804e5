"""One replica: decides while it leads and knows the cluster, starts afresh each term, outlives faults."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from hpa_replacement import controller as module
from hpa_replacement.controller import Controller
from hpa_replacement.settings import Settings
from surgekit.kube.client import Kube, KubeUnreachable
from surgekit.kube.table import Unreadable
from surgekit.prometheus.client import Queries


class FakeLease:
    held, alive = True, True

    def __init__(self, *_: Any) -> None:
        pass

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self.held = False


class FakeSource:
    age_s = 0.0

    def __init__(self, *_: Any) -> None:
        self.unreadable = Unreadable(cast(Kube, None), "kneescale")

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
    monkeypatch.setattr(module, "_PAUSE_S", 0.01)
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
    lease = cast(FakeLease, controller._lease)
    lease.held = False
    until(lambda: FakeReconciler.terms[0].stopped)
    lease.held = True
    until(lambda: len(FakeReconciler.terms) == 2)
    reconciling_goes_on()
    leader = controller.metrics.registry.get_sample_value
    assert leader("surgekit_kneescale_leader") == 1.0


def test_without_word_from_the_api_server_nothing_is_decided(controller: Controller) -> None:
    until(lambda: bool(FakeReconciler.terms))
    cast(FakeSource, controller._source).age_s = 61.0
    until(lambda: FakeReconciler.terms[0].stopped)
    assert controller.not_ready(time.monotonic()) == "no word of pods for 61 s"
    assert controller.alive(time.monotonic()), "it is the API server's fault, not ours"


@pytest.mark.parametrize("fault", [KubeUnreachable("gone"), ValueError("ours")])
def test_a_fault_in_a_round_is_not_the_end(controller: Controller, fault: Exception) -> None:
    until(lambda: bool(FakeReconciler.terms))
    FakeReconciler.fault = fault
    reconciling_goes_on()
    FakeReconciler.fault = None
    reconciling_goes_on()
    assert controller.alive(time.monotonic())
    counted = controller.metrics.registry.get_sample_value(
        "surgekit_kneescale_failures_total", {"what": "round"}
    )
    assert (counted or 0) > 0 if isinstance(fault, ValueError) else counted is None


def test_one_whose_last_round_is_long_ago_is_not_alive(controller: Controller) -> None:
    assert not controller.alive(time.monotonic() + 121)


def test_when_told_to_stop_it_stops(controller: Controller) -> None:
    until(lambda: bool(FakeReconciler.terms))
    controller.stop()
    assert not controller.alive(time.monotonic())
    assert FakeReconciler.terms[-1].stopped
