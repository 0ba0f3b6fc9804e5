"""The same Event about the same object is posted once in a while, others at once."""

from __future__ import annotations

from typing import Any, cast

import pytest

from surgekit.kube import events as module
from surgekit.kube.client import Kube
from surgekit.kube.events import REPEAT_S, Events


class Posted:
    def __init__(self) -> None:
        self.notes: list[str] = []

    def create(self, path: str, body: dict[str, Any]) -> None:
        self.notes.append(body["note"])


class Clock:
    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def time_ns(self) -> int:
        return int(self.now_s * 1e9)


def test_repeats_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, posted = Clock(), Posted()
    monkeypatch.setattr(module, "time", clock)
    events = Events(cast(Kube, posted), "test", "v1", "Pod")
    pod, other = (
        {"namespace": "shop", "name": "a", "uid": "1"},
        {"namespace": "shop", "name": "a", "uid": "2"},
    )
    for metadata, note in ((pod, "x"), (pod, "x"), (other, "x"), (pod, "y"), (pod, "x")):
        events.post(metadata, "Failing", note)
    assert posted.notes == ["x", "x", "y"]
    clock.now_s += REPEAT_S - 1
    events.post(pod, "Failing", "x")
    assert len(posted.notes) == 3, "repeats do not put the next one off"
    clock.now_s += 1
    events.post(pod, "Failing", "x")
    assert len(posted.notes) == 4


def test_what_is_remembered_is_bounded() -> None:
    posted = Posted()
    events = Events(cast(Kube, posted), "test", "v1", "Pod")
    for number in range(1500):
        events.post({"namespace": "shop", "name": f"p{number}"}, "Failing", "x")
    assert len(events._posted) == 1000
