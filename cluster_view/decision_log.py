"""Keeps the latest decisions, of all and of each function. Pure.

Anybody who may write an object can make it tell of decisions. So a part tells of a few in each namespace and
round; the rest is only in the list of its function.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from cluster_view.facts import Told
from cluster_view.model import MOST_DECISIONS, MOST_OF_ONE_FUNCTION, Decision, Difference, FunctionDecision
from cluster_view.text import iso

__all__ = ["DecisionLog"]

_A_ROUND = 20  # of one part in one namespace
_MOST_FUNCTIONS = 10_000


class DecisionLog:
    def __init__(self) -> None:
        self._latest: deque[Decision] = deque(maxlen=MOST_DECISIONS)  # newest first
        self._fresh: list[Decision] = []
        self._told: Counter[tuple[str, str]] = Counter()  # in this round, by part and namespace
        self._of_function: dict[str, deque[FunctionDecision]] = {}

    def add(self, told: Told, mode: str, at_s: float, differs: Difference | None = None) -> None:
        """`at_s`: when it arrived, for a decision that does not say when it was made."""
        about = told.about
        at = iso(told.at_s if told.at_s is not None else at_s)
        key = f"{about['kind']}/{about['namespace']}/{about['name']}"
        own = self._of_function.get(key)
        if own is not None:
            own.appendleft({"at": at, "sentence": told.sentence})
        whose = told.part, about["namespace"]
        self._told[whose] += 1
        if self._told[whose] <= _A_ROUND:
            self._fresh.append(
                {
                    "at": at,
                    "part": told.part,
                    "object": about,
                    "mode": mode,
                    "sentence": told.sentence,
                    "would_differ": differs,
                }
            )

    def begin(self, function: str) -> None:
        """From now on keep the decisions of this function."""
        if len(self._of_function) < _MOST_FUNCTIONS:
            self._of_function.setdefault(function, deque(maxlen=MOST_OF_ONE_FUNCTION))

    def end(self, function: str) -> None:
        self._of_function.pop(function, None)

    def of(self, function: str) -> list[FunctionDecision]:
        return list(self._of_function.get(function, ()))

    def take(self) -> list[Decision]:
        """The new ones, newest first; ends the round."""
        fresh = sorted(self._fresh, key=lambda d: d["at"], reverse=True)[:MOST_DECISIONS]
        self._latest.extendleft(reversed(fresh))
        self._fresh, self._told = [], Counter()
        return fresh

    def latest(self) -> Iterable[Decision]:
        return self._latest
