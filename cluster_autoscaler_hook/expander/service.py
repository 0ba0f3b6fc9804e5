"""From a request's bytes to the answer's, in time whatever happens.

Only bytes that are no request at all are an error (the caller then chooses by itself). Else there is an
answer: the decision, or the cheapest that fits where reading or deciding failed or took too long. Where
FCMA's plan cannot change it, it is made after the answer, for the records.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cluster_autoscaler_hook.expander import expander_pb2
from cluster_autoscaler_hook.expander.caller_model import Overhead
from cluster_autoscaler_hook.expander.decision import Choice, cheapest_that_fits, first_choice, with_plan
from cluster_autoscaler_hook.expander.decode import (
    DecodeTimeout,
    RequestError,
    Undecoded,
    decode,
    first_look,
)
from cluster_autoscaler_hook.expander.last_good_catalogue import LastGoodCatalogue
from cluster_autoscaler_hook.expander.model import Decision, Offer, Score
from cluster_autoscaler_hook.expander.plan import Solve
from cluster_autoscaler_hook.expander.prices import Prices, price_groups
from cluster_autoscaler_hook.expander.settings import Settings
from cluster_autoscaler_hook.expander.time_limit import TimeLimited
from cluster_autoscaler_hook.solver.deadline import Deadline
from surgekit.process.modes import Mode

__all__ = ["Expander"]

log = structlog.get_logger(__name__)

# A solver that has not come back for this long never will: liveness fails, the pod is restarted.
_STUCK_S = 60.0
_SCORES_SHOWN = 10


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.seconds = Histogram(
            "surgekit_expander_best_options_seconds",
            "From a request's bytes to the answer's.",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 5.0),
            registry=self.registry,
        )
        self.decisions = Counter(
            "surgekit_expander_decisions_total",
            "planned, fallback, off or refused (no request at all).",
            ["mode", "outcome"],
            registry=self.registry,
        )
        self.last_asked = Gauge(
            "surgekit_expander_last_asked_timestamp_seconds",
            "When the last question came, readable or not; 0 if none came since the start.",
            registry=self.registry,
        )
        self.unpriced = Counter(
            "surgekit_expander_unpriced_options_total",
            "Options whose class has no price.",
            registry=self.registry,
        )
        self.cost = Gauge(
            "surgekit_expander_scale_up_cost_per_hour",
            "Of the last decision: this step and all that must follow it, in the catalogue's currency.",
            registry=self.registry,
        )
        self.plan_cost = Gauge(
            "surgekit_expander_plan_cost_per_hour",
            "Of the last decision: FCMA's plan, with classes mixed freely.",
            registry=self.registry,
        )
        self.catalogue_faulty = Gauge(
            "surgekit_expander_catalogue_faulty",
            "1 while the catalogue's file cannot be used and an older one is.",
            registry=self.registry,
        )


class Expander:
    def __init__(self, settings: Settings, solve: Solve) -> None:
        """Raises CatalogueError."""
        self.settings = settings
        self.metrics = Metrics()
        self._solve = TimeLimited(solve)
        live = settings.mode is Mode.ENFORCE
        self._catalogue = LastGoodCatalogue(settings.catalogue, live) if settings.catalogue else None
        self._overhead = Overhead(
            settings.daemonset_cpu_millis, settings.daemonset_memory_mib << 20, settings.daemonset_pods
        )
        self._afterwards = ThreadPoolExecutor(1, thread_name_prefix="after-the-answer")
        self._kept: deque[dict[str, Any]] = deque(maxlen=settings.decisions_kept)

    def alive(self) -> bool:
        return self._solve.stuck_s() < _STUCK_S

    def explain(self) -> list[dict[str, Any]]:
        """The last decisions, newest first; waits for the plan of the newest."""
        self._afterwards.submit(lambda: None).result()
        return list(reversed(self._kept))

    def close(self) -> None:
        """Waits until every answer is recorded; there must be no calls any more."""
        self._afterwards.shutdown()

    def best_options(self, body: bytes) -> bytes:
        """Raises RequestError."""
        started_s, deadline = time.monotonic(), Deadline.after(self.settings.deadline_s)
        mode = self.settings.mode
        self.metrics.last_asked.set_to_current_time()
        try:
            look = first_look(body)
        except RequestError:
            self.metrics.decisions.labels(mode, "refused").inc()
            raise
        if mode is Mode.OFF:
            self.metrics.decisions.labels(mode, "off").inc()
            return _answer(look, {option.group for option in look.options})
        choice, plan = self._decide(look, deadline)
        # In shadow every option goes back: the caller's next expander, or chance, decides as without us.
        groups = {option.group for option in look.options}
        if mode is Mode.ENFORCE:
            if not choice.settled:
                decision = plan()
                choice, plan = Choice(decision), lambda: decision
            groups = set(choice.decision.groups)
        answer = _answer(look, groups)
        seconds, options, problems = time.monotonic() - started_s, len(look.options), look.problems
        self._afterwards.submit(lambda: self._record(plan(), options, problems, seconds))
        return answer

    def _decide(self, look: Undecoded, deadline: Deadline) -> tuple[Choice, Callable[[], Decision]]:
        """The choice, and what makes a plan for it. The latter does not hold the request's bytes."""
        catalogue = self._catalogue.current() if self._catalogue else None
        self.metrics.catalogue_faulty.set(bool(self._catalogue and self._catalogue.error))
        prices = price_groups(look.templates.values(), catalogue, self.settings.price_labels)
        try:
            offer = decode(look, deadline)
            choice = first_choice(offer, prices, self._overhead, deadline)
        except (DecodeTimeout, RequestError) as error:
            why = str(error)
        except Exception as error:  # a bug of ours costs a better choice, not the scale-up
            log.exception("decision failed")
            why = f"decision failed: {error!r}"
        else:
            return choice, lambda: self._planned(choice, offer, prices, deadline)
        cheapest = cheapest_that_fits(look.options, look.templates, prices, why)
        return Choice(cheapest), lambda: cheapest

    def _planned(self, choice: Choice, offer: Offer, prices: Prices, deadline: Deadline) -> Decision:
        try:
            return with_plan(choice, offer, prices, self._solve, deadline)
        except Exception as error:  # a bug of ours costs the plan
            log.exception("plan failed")
            return replace(choice.decision, fallback=f"plan failed: {error!r}")

    def _record(self, decision: Decision, options: int, problems: tuple[str, ...], seconds: float) -> None:
        mode = self.settings.mode
        self.metrics.seconds.observe(seconds)
        self.metrics.decisions.labels(mode, "fallback" if decision.fallback else "planned").inc()
        self.metrics.unpriced.inc(len(decision.unpriced))
        if decision.scores:
            self.metrics.cost.set(decision.scores[0].total_per_hour)
        if decision.plan_per_hour is not None:
            self.metrics.plan_cost.set(decision.plan_per_hour)
        said = {
            "decision": list(decision.groups),
            "mode": str(mode),
            "options": options,
            "reasons": [*decision.reasons, *problems],
            "fallback": decision.fallback,
            "plan_per_hour": decision.plan_per_hour,
            "duration_ms": round(seconds * 1000, 1),
        }
        log.info("best options", **said)
        scores = [_shown(score) for score in decision.scores[:_SCORES_SHOWN]]
        self._kept.append(said | {"scores": scores, "at": time.time()})


def _answer(look: Undecoded, groups: set[str]) -> bytes:
    """The caller reads the ids only, so pods are not sent back."""
    response = expander_pb2.BestOptionsResponse(
        options=[
            expander_pb2.Option(nodeGroupId=o.group, nodeCount=o.nodes, debug=o.debug)
            for o in look.options
            if o.group in groups
        ]
    )
    return response.SerializeToString()


def _shown(score: Score) -> dict[str, float | str]:
    return {"group": score.group, "now": score.step_per_hour, "then": score.to_go_per_hour}
