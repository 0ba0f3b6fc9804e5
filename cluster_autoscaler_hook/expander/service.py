"""Turns the bytes of a request into the bytes of an answer, always in time.

Only bytes that are not a request are an error; then the caller chooses by itself. Everything else gets an
answer: the decision, or the cheapest option that fits if decoding or deciding failed or took too long. FCMA's
plan is made after the answer, for the records, unless it can change the answer.
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

# A solver that hangs for so long will not return: liveness fails, and the pod is restarted.
_STUCK_S = 60.0
_SCORES_SHOWN = 10


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.seconds = Histogram(
            "surgekit_expander_best_options_seconds",
            "Seconds from a request's bytes to the answer's.",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 5.0),
            registry=self.registry,
        )
        self.decisions = Counter(
            "surgekit_expander_decisions_total",
            "Decisions: planned, fallback, off or refused (not a request).",
            ["mode", "outcome"],
            registry=self.registry,
        )
        self.last_asked = Gauge(
            "surgekit_expander_last_asked_timestamp_seconds",
            "When the last request came, readable or not; 0 if none came since the start.",
            registry=self.registry,
        )
        self.unpriced = Counter(
            "surgekit_expander_unpriced_options_total",
            "Options of classes without a price.",
            registry=self.registry,
        )
        self.cost = Gauge(
            "surgekit_expander_scale_up_cost_per_hour",
            "Last decision: price of this step and all that follow, in the catalogue's currency.",
            registry=self.registry,
        )
        self.plan_cost = Gauge(
            "surgekit_expander_plan_cost_per_hour",
            "Last decision: price of FCMA's plan, with classes mixed freely.",
            registry=self.registry,
        )
        self.catalogue_faulty = Gauge(
            "surgekit_expander_catalogue_faulty",
            "1 while the catalogue file is faulty and an older catalogue is used.",
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
        """The last decisions, newest first. Waits for the plan of the newest."""
        self._afterwards.submit(lambda: None).result()
        return list(reversed(self._kept))

    def close(self) -> None:
        """Wait until every answer is recorded. Call it after the last request."""
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
        # In shadow return every option: the caller's next expander decides, as without us.
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
        """The choice, and a function that makes its plan. The function does not keep the request's bytes."""
        catalogue = self._catalogue.current() if self._catalogue else None
        self.metrics.catalogue_faulty.set(bool(self._catalogue and self._catalogue.error))
        prices = price_groups(look.templates.values(), catalogue, self.settings.price_labels)
        try:
            offer = decode(look, deadline)
            choice = first_choice(offer, prices, self._overhead, deadline)
        except (DecodeTimeout, RequestError) as error:
            why = str(error)
        except Exception as error:  # a bug of ours must not prevent the scale-up
            log.exception("decision failed")
            why = f"decision failed: {error!r}"
        else:
            return choice, lambda: self._planned(choice, offer, prices, deadline)
        cheapest = cheapest_that_fits(look.options, look.templates, prices, why)
        return Choice(cheapest), lambda: cheapest

    def _planned(self, choice: Choice, offer: Offer, prices: Prices, deadline: Deadline) -> Decision:
        try:
            return with_plan(choice, offer, prices, self._solve, deadline)
        except Exception as error:  # a bug of ours costs only the plan
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
    """Without pods: the caller reads only the group ids."""
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
