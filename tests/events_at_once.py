"""Recorders of Events for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from surgekit.kube.client import Kube
from surgekit.kube.events import EventRecorder
from surgekit.kube.table import Unreadable

__all__ = ["EventsAtOnce", "unreadable"]


class EventsAtOnce(EventRecorder):
    """Posts in the caller's thread, so that a test sees each Event at once."""

    def __init__(self, kube: object, reporter: str = "test") -> None:
        super().__init__(cast(Kube, kube), reporter)

    def post(self, regarding: Mapping[str, Any], *said: Any, **limits: Any) -> bool:
        taken = super().post(regarding, *said, **limits)
        if taken and (body := self._next()):
            self._create(body)
        return taken


def unreadable(kube: object = None) -> Unreadable:
    """For a table whose Events nobody reads: they stay in the queue."""
    return Unreadable(EventRecorder(cast(Kube, kube), "test"))
