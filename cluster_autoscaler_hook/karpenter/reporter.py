"""Keeps the NodePlan's status up to date and posts Events about it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from cluster_autoscaler_hook.karpenter import nodeplan
from cluster_autoscaler_hook.karpenter.actuator import Actuator
from cluster_autoscaler_hook.karpenter.model import Plan, WaitingPod
from cluster_autoscaler_hook.karpenter.nodeplan import Phase, Report
from cluster_autoscaler_hook.karpenter.notices import Notice, notices
from cluster_autoscaler_hook.karpenter.settings import Settings
from surgekit.decision import Decision

__all__ = ["Reporter"]

Json = dict[str, Any]
_INTERVAL_S = 1.0  # between two writes of the NodePlan, unless there is a new plan


class Reporter:
    def __init__(self, settings: Settings, actuator: Actuator) -> None:
        self._settings, self._actuator = settings, actuator
        self._plan_fields: Json = {}  # not written yet
        self._written: Json = {}
        self._written_s = -float("inf")
        self._condition: Json = {}
        self._noticed: frozenset[Notice] = frozenset()

    def resume(self, status: Json) -> None:
        """Continue from the status that the leader before us wrote."""
        self._condition = (status.get("conditions") or [{}])[0]
        if not status:
            self.planned(Decision(Plan()), Phase.IDLE, ())

    def planned(self, decision: Decision[Plan], phase: str, waiting: Iterable[WaitingPod]) -> None:
        """Write this plan with the next report."""
        self._plan_fields = nodeplan.plan_fields(decision, phase, waiting)

    def report(self, report: Report, now: float) -> None:
        self._post_events(report)
        content = nodeplan.live_fields(report, self._settings, now)
        (condition,) = content["conditions"]
        if self._condition.get("status") == condition["status"]:
            condition["lastTransitionTime"] = self._condition["lastTransitionTime"]
        now_s, observed = time.monotonic(), content.pop("observedTime")
        recent = now_s - self._written_s < _INTERVAL_S
        if not self._plan_fields and (content == self._written or recent):
            return
        self._actuator.write_plan(self._plan_fields | content | {"observedTime": observed})
        self._plan_fields, self._written, self._condition = {}, content, condition
        self._written_s = now_s

    def _post_events(self, report: Report) -> None:
        """One Event for each notice that did not hold at the last report."""
        current = notices(report)
        for notice in current:
            if notice not in self._noticed:
                self._actuator.notify(notice)
        self._noticed = frozenset(current)
