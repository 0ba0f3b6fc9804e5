"""Writes the statuses of BurstFunctions, and Events when one begins or ends to be eligible or to overflow."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from burst_plane import status
from burst_plane.burst_function import BURST_FUNCTIONS
from burst_plane.conditions import Readiness, conditions, invalid
from burst_plane.functions import Functions, Known
from burst_plane.leader_session import LeaderSession
from burst_plane.metrics import ControllerMetrics
from burst_plane.model import Function
from burst_plane.status import Facts
from burst_plane.turns import in_turns
from surgekit.kube.client import ApiError, Kube
from surgekit.kube.conditions import Condition, status_before
from surgekit.kube.events import Events
from surgekit.kube.status import patch_status

__all__ = ["StatusWriter"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
_LEAST_S = 1.0  # between two writes of one object, failed ones included
_MOST_AT_ONCE = 100  # some milliseconds each; scaling waits for them


@dataclass(frozen=True, slots=True)
class _Written:
    at_s: float
    said: tuple[Condition, ...]
    revision: tuple[str, int] | None = None  # and what its pods take at once

    def reason(self, type_: str) -> str:
        return next((c.reason for c in self.said if c.type == type_), "")


_NOTHING = _Written(-1e9, ())


class StatusWriter:
    """One leader's."""

    def __init__(
        self,
        kube: Kube,
        events: Events,
        metrics: ControllerMetrics,
        leads: Callable[[], bool],
        *,
        every_s: float,
    ) -> None:
        self._kube, self._events, self._metrics = kube, events, metrics
        self._leads, self._every_s = leads, every_s
        self._written: dict[str, _Written] = {}  # by uid

    def write(
        self, session: LeaderSession, functions: Functions, readiness: Mapping[Function, Readiness]
    ) -> None:
        """Those that are due: namespaces in turn, the oldest status of each first."""
        there: dict[str, tuple[Json, list[Condition], Known | None]] = {}
        for known in functions:
            found = known.found
            said = conditions(known.mode, found.reason, found.message, readiness[known.spec.function])
            there[known.spec.uid] = known.obj, said, known
        for uid, (obj, why) in functions.invalid.items():
            there[uid] = obj, invalid(why), None
        self._written = {uid: of for uid, of in self._written.items() if uid in there}
        due = sorted(
            (uid for uid, (_, said, of) in there.items() if self._is_due(uid, said, _revision(of))),
            key=lambda uid: self._written.get(uid, _NOTHING).at_s,
        )
        for uid in in_turns(due, lambda uid: str(there[uid][0]["metadata"]["namespace"]))[:_MOST_AT_ONCE]:
            obj, said, one = there[uid]
            if one is None:
                generation = obj["metadata"].get("generation")
                generation = generation if isinstance(generation, int) else 0
                body = status.invalid_status(status_before(obj), said, generation, time.time())
            else:
                facts = _facts(session, one, readiness[one.spec.function])
                body = status.status_of(status_before(obj), said, facts, time.time())
            self._write(obj, said, body, _revision(one))

    def reasons(self) -> list[tuple[str, str]]:
        """Of the conditions Eligible and Overflow, as written last."""
        return [(of.reason("Eligible"), of.reason("Overflow")) for of in self._written.values()]

    def _is_due(self, uid: str, said: list[Condition], revision: tuple[str, int] | None) -> bool:
        """Conditions and the revision, which balancers go by, are written when they change, numbers every so
        often."""
        before = self._written.get(uid, _NOTHING)
        age_s = time.monotonic() - before.at_s
        changed = [(c.type, c.reason) for c in said] != [(c.type, c.reason) for c in before.said]
        changed |= revision != before.revision
        return age_s >= self._every_s or (changed and age_s >= _LEAST_S)

    def _write(self, obj: Json, said: list[Condition], body: Json, revision: tuple[str, int] | None) -> None:
        """One object's trouble does not keep the others from their status."""
        if not self._leads():
            return
        uid = str(obj["metadata"]["uid"])
        before = self._written.get(uid, _NOTHING)
        self._written[uid] = _Written(time.monotonic(), before.said, before.revision)
        try:
            patch_status(self._kube, BURST_FUNCTIONS, obj["metadata"], body)
        except ApiError as error:
            self._metrics.failures.labels("status").inc()
            log.warning("status not written", burst_function=obj["metadata"].get("name"), error=str(error))
            return
        for c in said:
            if c.type != "Ready" and c.holds is not None and before.reason(c.type) != c.reason:
                usual = c.holds or c.reason in ("Off", "NoAgents")
                self._events.post(obj["metadata"], c.reason, c.message, "Normal" if usual else "Warning")
        self._written[uid] = _Written(time.monotonic(), tuple(said), revision)


def _revision(known: Known | None) -> tuple[str, int] | None:
    of = known.revision if known else None
    return (of.revision, of.concurrency) if of else None


def _facts(session: LeaderSession, known: Known, readiness: Readiness) -> Facts:
    now_s = time.monotonic()
    with session.lock:
        account = session.accounts[known.spec.function]
        view, saved = account.view(now_s), account.history.saved(now_s)
    return Facts(known.spec.generation, known.mode, view, saved, known.regular, readiness, known.revision)
