"""What the condition `Deciding` of a KneePolicy says."""

from __future__ import annotations

from typing import Any

from hpa_replacement.budget import affordable
from hpa_replacement.model import Decision, NoSample, Sample
from hpa_replacement.policy import Policy
from hpa_replacement.status import stamp

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
    """`before` is the status so far: the time of transition stays while True stays True."""
    status = "True" if reason in _WORKING else "False"
    known = _known(before)
    since = known.get("lastTransitionTime") if known.get("status") == status else None
    return {
        "type": "Deciding",
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": since or stamp(now_s),
    }


def is_refusal(reason: str) -> bool:
    """Whether somebody should look: neither decided nor told not to."""
    return reason in _NOT and reason not in ("Off", "Paused")


def is_new(before: Json, reason: str) -> bool:
    return bool(_known(before).get("reason") != reason)


def _known(status: Json) -> Json:
    return next((c for c in status.get("conditions") or () if c["type"] == "Deciding"), Json())
