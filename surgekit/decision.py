"""What every part returns when it decides: the action, and why.

A part's decision function is pure and returns a `Decision` of its own action type. The adapter around it
logs, counts and shows the decision, and carries the action out in mode `enforce`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["Decision"]

Action_co = TypeVar("Action_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[Action_co]):
    """With `valid=False` the inputs were no basis for a decision: leave the cluster as it is."""

    action: Action_co
    reasons: tuple[str, ...] = ()  # sentences, the most important first
    inputs_age_s: Mapping[str, float] = field(default_factory=dict)  # by source, when the decision was made
    valid: bool = True
