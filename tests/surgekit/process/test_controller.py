"""The shell of controllers: loops outlive whatever their steps raise, and a leader that fails makes way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from surgekit.kube.client import ApiError, KubeUnreachable
from surgekit.kube.events import EventRecorder
from surgekit.kube.lease import Lease
from surgekit.process import controller as module
from surgekit.process.controller import Controller


class FakeLease:
    def __init__(self) -> None:
        self.held, self.alive, self.term = True, True, 1
        self.metadata = {"namespace": "surgekit-system", "name": "surgekit-test"}
        self.stepped_down = 0

    def start(self) -> None: ...

    def stop(self) -> None:
        self.held = False

    def step_down(self) -> None:
        self.stepped_down += 1
        self.held = False


class FakeEvents:
    def __init__(self) -> None:
        self.posted: list[tuple[str, str]] = []
        self.runs = False

    def start(self) -> None:
        self.runs = True

    def stop(self) -> None:
        self.runs = False

    def about(self, api_version: str, kind: str) -> FakeEvents:
        return self

    def post(self, metadata: dict[str, Any], reason: str, note: str, type_: str = "Normal") -> None:
        self.posted.append((reason, note))


class Work:
    """A session, or a plain step, that does as it is told."""

    made: list[Work] = []  # noqa: RUF012  # every session of a test

    def __init__(self) -> None:
        self.calls, self.stopped = 0, False
        self.raises: Exception | None = None
        Work.made.append(self)

    def step(self) -> float:
        self.calls += 1
        if self.raises:
            raise self.raises
        return 0.01

    def stop(self) -> None:
        self.stopped = True


class Idle:
    def start(self) -> None: ...

    def stop(self) -> None: ...


class Rig:
    def __init__(self) -> None:
        Work.made = []
        self.lease, self.events, self.age_s = FakeLease(), FakeEvents(), 0.0
        self.controller = Controller(
            "test",
            CollectorRegistry(),
            ages_s=lambda _now_s: {"pods": self.age_s},
            max_input_age_s=60.0,
            lease=cast(Lease, self.lease),
            events=cast(EventRecorder, self.events),
        )

    def count(self, name: str, **labels: str) -> float:
        return self.controller.registry.get_sample_value(f"surgekit_test_{name}", labels) or 0.0


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr(module, "_FIRST_S", 0.01)
    monkeypatch.setattr(module, "_LONGEST_S", 0.02)
    made = Rig()
    yield made
    made.controller.stop()


def until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline_s, "not within 10 s"
        time.sleep(0.005)


def goes_on(work: Work) -> None:
    before = work.calls
    until(lambda: work.calls > before + 1)


FAULT = ValueError("a fault of ours")


@pytest.mark.parametrize(
    ("error", "reason", "readyz"),
    [
        (KubeUnreachable("gone"), "api_server", ""),
        (ApiError(503, "", "busy"), "api_server", ""),
        (FAULT, "fault", "work fails: ValueError: a fault of ours"),
    ],
)
def test_whatever_a_step_raises_it_is_called_again(
    rig: Rig, error: Exception, reason: str, readyz: str
) -> None:
    work = Work()
    rig.controller.loop("work", work.step)
    rig.controller.start()
    goes_on(work)
    work.raises = error
    goes_on(work)
    assert rig.count("step_failures_total", loop="work", reason=reason) > 0
    assert rig.controller.not_ready(time.monotonic()) == readyz
    assert rig.controller.alive(time.monotonic()), "a restart would not mend it"
    work.raises = None
    goes_on(work)
    assert rig.controller.not_ready(time.monotonic()) == ""


def test_a_failing_step_backs_off(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_S", 30.0)
    monkeypatch.setattr(module, "_LONGEST_S", 30.0)
    work = Work()
    work.raises = FAULT
    loop = rig.controller.loop("work", work.step)
    rig.controller.start()
    until(lambda: loop.fault)
    loop.wake()  # news do not make it hurry
    time.sleep(0.1)
    assert work.calls == 1


def test_a_sleeping_loop_can_be_woken(rig: Rig) -> None:
    calls: list[float] = []

    def step() -> float:
        calls.append(time.monotonic())
        return 3600.0

    loop = rig.controller.loop("work", step)
    rig.controller.start()
    until(lambda: len(calls) == 1)
    loop.wake()
    until(lambda: len(calls) == 2)


def test_a_step_that_does_not_end_shows_in_livez(rig: Rig) -> None:

    def step() -> float:
        time.sleep(1.0)
        return 0.0

    rig.controller.loop("stuck", step)
    rig.controller.start()
    time.sleep(0.05)
    assert rig.controller.alive(time.monotonic())
    assert not rig.controller.alive(time.monotonic() + 121.0)


def test_something_beside_that_died_shows_in_livez(rig: Rig) -> None:
    rig.controller.run_beside(Idle(), lambda: False)
    assert not rig.controller.alive(time.monotonic())


def test_only_the_leader_has_a_session_and_each_term_a_new_one(rig: Rig) -> None:
    rig.lease.held = False
    rig.controller.lead("lead", Work)
    rig.controller.start()
    time.sleep(0.05)
    assert Work.made == []
    rig.lease.held = True
    until(lambda: len(Work.made) == 1)
    goes_on(Work.made[0])
    rig.lease.term += 1  # lost and taken again between two steps
    until(lambda: len(Work.made) == 2)
    assert Work.made[0].stopped
    rig.lease.held = False
    until(lambda: Work.made[1].stopped)
    assert rig.count("leader") == 0.0


def test_on_an_old_picture_nothing_is_done(rig: Rig) -> None:
    rig.controller.lead("lead", Work)
    rig.controller.start()
    until(lambda: Work.made)
    rig.age_s = 61.0
    until(lambda: Work.made[0].stopped)
    assert rig.controller.not_ready(time.monotonic()) == "no word of pods for 61 s"
    assert rig.controller.alive(time.monotonic()), "it is the API server's fault, not ours"
    assert rig.count("input_age_seconds", source="pods") == 61.0


def test_a_leader_that_keeps_failing_says_so_and_makes_way(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_DOWN_S", 0.1)
    rig.controller.lead("lead", Work)
    rig.controller.start()
    until(lambda: Work.made)
    Work.made[0].raises = FAULT
    until(lambda: rig.lease.stepped_down == 1)
    assert rig.events.posted[0] == ("Failing", "test, lead: ValueError: a fault of ours")


def test_a_fault_that_cannot_be_reported_does_not_end_the_loop(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise KeyError("spec")

    monkeypatch.setattr(rig.events, "post", refuse)
    rig.controller.lead("lead", Work)
    rig.controller.start()
    until(lambda: Work.made)
    Work.made[0].raises = FAULT
    goes_on(Work.made[0])
    assert rig.controller.alive(time.monotonic())


def test_a_leader_that_the_api_server_refuses_stays(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other replica would fare no better."""
    monkeypatch.setattr(module, "STEP_DOWN_S", 0.0)
    rig.controller.lead("lead", Work)
    rig.controller.start()
    until(lambda: Work.made)
    Work.made[0].raises = ApiError(403, "Forbidden", "no")
    goes_on(Work.made[0])
    goes_on(Work.made[0])
    assert rig.lease.stepped_down == 0


def test_the_recorder_outlives_whoever_may_say_something(rig: Rig) -> None:
    seen: list[bool] = []

    class Talker:
        def start(self) -> None:
            seen.append(rig.events.runs)

        stop = start

    rig.controller.run_beside(Talker())
    rig.controller.start()
    rig.controller.stop()
    assert seen == [True, True]
    assert not rig.events.runs


def test_when_told_to_stop_it_stops(rig: Rig) -> None:
    rig.controller.lead("lead", Work)
    rig.controller.start()
    until(lambda: Work.made)
    rig.controller.stop()
    assert Work.made[0].stopped
    calls = Work.made[0].calls
    time.sleep(0.05)
    assert Work.made[0].calls == calls
    assert not rig.lease.held
