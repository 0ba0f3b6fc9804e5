"""Runs a solve so that it cannot delay an answer.

Solvers nearly always keep their deadline. Native code that does not return may cost one plan, but not the
answer. So each solve runs in a thread of its own. An overdue one is left alone, and nothing is planned until
it returns. `stuck_s` tells for how long it has been overdue; liveness uses it.
"""

from __future__ import annotations

import threading
import time

import structlog

from cluster_autoscaler_hook.expander.decision import PlanFailed
from cluster_autoscaler_hook.expander.plan import Solve
from cluster_autoscaler_hook.solver.model import Problem, Solution

__all__ = ["TimeLimited"]

log = structlog.get_logger(__name__)

# The share of the time that the solver gets; the rest is for returning.
_SOLVERS_SHARE = 0.8


class TimeLimited:
    def __init__(self, solve: Solve) -> None:
        self._solve = solve
        self._busy = threading.Lock()
        self._overdue_since_s: float | None = None

    def stuck_s(self) -> float:
        since_s = self._overdue_since_s
        return 0.0 if since_s is None else time.monotonic() - since_s

    def __call__(self, problem: Problem, seconds: float) -> Solution:
        """Raise PlanFailed if there is no solution in time."""
        if not self._busy.acquire(blocking=False):
            raise PlanFailed("another plan is still being made")
        found: list[Solution | BaseException] = []
        done = threading.Event()

        def work() -> None:
            try:
                found.append(self._solve(problem, seconds * _SOLVERS_SHARE))
            except Exception as error:
                found.append(error)
            finally:
                self._busy.release()  # before the waiter wakes, who may call again
                done.set()
                self._overdue_since_s = None

        threading.Thread(target=work, name="solve", daemon=True).start()
        if not done.wait(seconds):
            self._overdue_since_s = time.monotonic()
            if done.is_set():  # it returned between the two lines
                self._overdue_since_s = None
            raise PlanFailed("the solver did not come back in time")
        (result,) = found
        if isinstance(result, BaseException):
            log.error("solver failed", error=repr(result))
            raise PlanFailed(f"the solver failed: {result!r}") from result
        return result
