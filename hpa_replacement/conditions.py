"""The condition `Deciding` of a KneePolicy."""

from __future__ import annotations

from typing import Any

from hpa_replacement.decision.budget import affordable
from hpa_replacement.decision.model import NoSample, Sample, Scaling
from hpa_replacement.decision.policy import Policy
from surgekit.decision import Decision
from surgekit.kube.conditions import Condition, conditions

__all__ = ["REASONS", "Refusal", "condition", "is_new", "is_refusal", "reason_of"]

Json = dict[str, Any]
# Reasons while deciding, and while not; the CRD explains them to users.
_DECIDING = ("AtKnee", "Searching", "Holding", "BudgetSpent")
_NOT_DECIDING = (
    "Off", "Paused", "NoData", "Undecided", "InvalidPolicy", "TargetNotScalable", "AnotherAutoscaler",
    "Failed",
)  # fmt: skip
REASONS = (*_DECIDING, *_NOT_DECIDING)


class Refusal(Exception):
    """Why nothing is decided: the condition's reason, and a message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def reason_of(policy: Policy, decision: Decision[Scaling], sample: Sample | NoSample) -> str:
    spending = decision.action.state.spending
    if not decision.valid:
        return "NoData" if isinstance(sample, NoSample) else "Undecided"
    if policy.budget and spending and affordable(spending, policy.budget) < policy.min_replicas:
        return "BudgetSpent"
    if decision.action.state.search:
        return "Searching"
    return "AtKnee" if decision.action.state.known else "Holding"


def condition(before: Json, reason: str, message: str, generation: int, now_s: float) -> Json:
    new = Condition("Deciding", reason in _DECIDING, reason, message)
    return conditions(before, [new], generation, now_s)[0]


def is_refusal(reason: str) -> bool:
    """Whether it needs attention: nothing is decided although the user wants it."""
    return reason in _NOT_DECIDING and reason not in ("Off", "Paused")


def is_new(before: Json, reason: str) -> bool:
    known = (c for c in before.get("conditions") or () if c["type"] == "Deciding")
    return bool(next(known, Json()).get("reason") != reason)
