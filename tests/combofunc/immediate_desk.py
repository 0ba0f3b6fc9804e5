"""A planning desk that plans while the caller waits, and Events that are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from combofunc.planner import planning
from combofunc.reconcile.function_state import Basis
from combofunc.reconcile.plan_result import PlanResult, plan_at_once
from combofunc.reconcile.planner_input import PlannerInput
from surgekit.kube.events import Events

Json = dict[str, Any]


class Told(Events):
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def post(self, metadata: Json, reason: str, note: str, type_: str = "Normal") -> None:
        self.told.append((reason, note))


class AtOnce:
    def request(
        self, uid: str, namespace: str, basis: Basis, make_input: Callable[[], PlannerInput]
    ) -> PlanResult | None:
        return plan_at_once(planning.plan)(basis, make_input)

    def cancel(self, uid: str) -> None: ...

    def reset(self) -> None: ...
