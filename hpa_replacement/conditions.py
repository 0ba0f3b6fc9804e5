"""What the condition `Deciding` of a KneePolicy says."""

from __future__ import annotations

from typing import Any

from hpa_replacement.decision.budget import affordable
from hpa_replacement.decision.model import Decision, NoSample, Sample
from hpa_replacement.decision.policy import Policy
from surgekit.kube.conditions import Condition, conditions

__all__ = ["REASONS", "Refusal", "condition", "is_new", "is_refusal", "reason_of"]

Json = dict[str, Any]
# Decided, or not; the CRD explains them to users.
_WORKING = ("AtKnee", "Searching", "Holding", "BudgetSpent")
_NOT = ("Off", "Paused", "NoData", "Undecided", "InvalidPolicy", "TargetNotScalable", "AnotherAutoscaler",
        "Failed")  # fmt: skip
REASONS = (*_WORKING, *_NOT)


class Refusal(Exception):
    """No decision: the condition's reason, and in words."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def reason_of(policy: Policy, decision: Decision, sample: Sample | NoSample) -> str:
    spending = decision.state.spending
    if not decision.valid:
        return "NoData" if isinstance(sample, NoSample) else "Undecided"
    if policy.budget and spending and affordable(spending, policy.budget) < policy.min_replicas:
        return "BudgetSpent"
    if decision.state.search:
        return "Searching"
    return "AtKnee" if decision.state.known else "Holding"


def condition(before: Json, reason: str, message: str, generation: int, now_s: float) -> Json:
    said = Condition("Deciding", reason in _WORKING, reason, message)
    return conditions(before, [said], generation, now_s)[0]


def is_refusal(reason: str) -> bool:
    """Whether somebody should look: neither decided nor told not to."""
    return reason in _NOT and reason not in ("Off", "Paused")


def is_new(before: Json, reason: str) -> bool:
    known = (c for c in before.get("conditions") or () if c["type"] == "Deciding")
    return bool(next(known, Json()).get("reason") != reason)
