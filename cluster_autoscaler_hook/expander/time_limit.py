"""A solve that cannot hold up an answer.

Solvers keep their deadline by themselves, nearly always; native code that does not come back must cost one
plan, not the answer. It runs in a thread of its own; one that is overdue is left alone, and until it returns
nothing is planned. `stuck_s` tells for how long that has been: liveness.
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

# The part of the time given that the solver is told of; the rest is for coming back.
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
        """Raises PlanFailed."""
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
                self._busy.release()  # before anyone is woken who may ask again
                done.set()
                self._overdue_since_s = None

        threading.Thread(target=work, name="solve", daemon=True).start()
        if not done.wait(seconds):
            self._overdue_since_s = time.monotonic()
            if done.is_set():  # it came back between the two lines
                self._overdue_since_s = None
            raise PlanFailed("the solver did not come back in time")
        (result,) = found
        if isinstance(result, BaseException):
            log.error("solver failed", error=repr(result))
            raise PlanFailed(f"the solver failed: {result!r}") from result
        return result
