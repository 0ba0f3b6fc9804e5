"""Explains why a target has this many replicas, from the KneePolicy's status. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hpa_replacement import kneepolicy
from hpa_replacement.decision import budget
from hpa_replacement.decision.model import KnownKnee, State
from hpa_replacement.kneepolicy import KneePolicy
from hpa_replacement.search import Found, Point, SearchState, Variant, ask
from hpa_replacement.search.best import Fit, fitted
from hpa_replacement.status import read_state
from surgekit.errors import UserError

__all__ = ["BudgetLeft", "Explanation", "NextStep", "NothingToExplain", "explain"]

Json = dict[str, Any]


class NothingToExplain(UserError):
    """There is no decision yet; the message says what to do."""


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    replica_intervals: float
    spent: float
    left: float
    window_left_s: float
    each_interval: float  # replicas the rest of the budget gives each remaining interval
    at_end: str


@dataclass(frozen=True, slots=True)
class NextStep:
    """The replicas a search asks for next, or the knee it found."""

    replicas: int
    found: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    policy: str
    target: str
    mode: str
    via: str
    replicas: int | None  # of the target at the decision
    target_replicas: int | None  # last asked for
    decided_at: str
    condition: str
    reasons: tuple[str, ...]
    inputs_age_s: dict[str, float]  # by source, at the decision
    sample: Json | None  # status.lastSample
    budget: BudgetLeft | None
    known: tuple[KnownKnee, ...]
    searching: bool
    variant: str
    left: int  # the range of the search
    right: int
    points: tuple[Point, ...]  # in the order measured; those of the last search if none is under way
    evidence: tuple[Point, ...]  # measured before this search
    next_step: NextStep | None
    fit: Fit | None
    knee: int | None


def explain(obj: Json, now_s: float) -> Explanation:
    """Explain the KneePolicy `obj`. Raises PolicyError if its spec cannot be read."""
    policy, status = kneepolicy.read(obj), obj.get("status") or {}
    if not status.get("decidedAt"):
        raise NothingToExplain(_not_yet(policy, status))
    try:
        state = read_state(status)
    except ValueError as error:
        raise NothingToExplain(
            f"{policy.key}: {error}. The controller ignores such a status and starts anew; "
            "did another version write it?"
        ) from error
    sample, search = status.get("lastSample"), state.search
    left, right = _range(policy, search, sample)
    points = search.points if search else state.evidence
    known = tuple(k for k in state.known if not k.inferred)
    every = (*search.evidence, *search.points) if search else state.evidence
    fit = fitted(every, left, right) if policy.policy.search.variant is Variant.BEST else None
    last: Json = status.get("lastDecision") or {}
    condition: Json = next(iter(status.get("conditions") or ()), {})
    return Explanation(
        policy=policy.key,
        target=f"{policy.target.kind} {policy.target.name}",
        mode="paused" if policy.paused else str(policy.mode),
        via=str(policy.via),
        replicas=status.get("replicas"),
        target_replicas=status.get("targetReplicas"),
        decided_at=status["decidedAt"],
        condition=condition.get("reason", ""),
        reasons=tuple(last.get("reasons") or ()),
        inputs_age_s={k: v for k, v in (last.get("inputsAgeSeconds") or {}).items() if v is not None},
        sample=sample,
        budget=_budget(policy, state, now_s),
        known=state.known,
        searching=search is not None,
        variant=str(policy.policy.search.variant),
        left=left,
        right=right,
        points=points,
        evidence=search.evidence if search else (),
        next_step=_next_step(search),
        fit=fit,
        knee=known[-1].replicas if known and not search else fit.knee if fit else None,
    )


def _not_yet(policy: KneePolicy, status: Json) -> str:
    conditions = status.get("conditions") or ()
    if conditions:
        first = conditions[0]
        return f"{policy.key}: no decision yet, {first.get('reason')}: {first.get('message')}"
    return (
        f"{policy.key}: no decision yet and no condition. Is the controller running "
        "(`surgekit serve kneescale`), and does it hold its Lease?"
    )


def _range(policy: KneePolicy, search: SearchState | None, sample: Json | None) -> tuple[int, int]:
    if search:
        return search.left, search.right
    low, high = policy.policy.min_replicas, policy.policy.max_replicas
    capacity = (sample or {}).get("capacity") or high
    return low, max(min(high, capacity), low)


def _next_step(search: SearchState | None) -> NextStep | None:
    if search is None:
        return None
    step = ask(search)
    if isinstance(step, Found):
        return NextStep(step.knee, True, step.reason)
    return NextStep(step.replicas, False, step.reason)


def _budget(policy: KneePolicy, state: State, now_s: float) -> BudgetLeft | None:
    allowed, spending = policy.policy.budget, state.spending
    if allowed is None or spending is None:
        return None
    interval_s = policy.policy.interval_s
    return BudgetLeft(
        allowed.replica_intervals,
        spending.spent,
        budget.left(spending, allowed),
        max(spending.window_start_s + allowed.window_s - now_s, 0.0),
        budget.affordable_on_average(spending, allowed, interval_s, now_s),
        str(allowed.at_end),
    )
