"""A planning desk that plans while the caller waits, and Events that are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from combofunc.planner import planning
from combofunc.reconcile.plan_result import Answer, Question, at_once
from surgekit.kube.events import Events

Json = dict[str, Any]


class Told(Events):
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def post(self, metadata: Json, reason: str, note: str, type_: str = "Normal") -> None:
        self.told.append((reason, note))


class AtOnce:
    def ask(
        self, uid: str, namespace: str, basis: tuple[Any, ...], question: Callable[[], Question]
    ) -> Answer | None:
        return at_once(planning.plan)(basis, question)

    def leave(self, uid: str) -> None: ...

    def reset(self) -> None: ...
