"""Turns the bytes of a request into the bytes of an answer, always in time.

Only bytes that are not a request are an error; then the caller chooses by itself. Everything else gets an
answer: the decision, or the cheapest option that fits if decoding or deciding failed or took too long. FCMA's
plan is made after the answer, for the records, unless it can change the answer.
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cluster_autoscaler_hook.expander import expander_pb2
from cluster_autoscaler_hook.expander.caller_model import Overhead
from cluster_autoscaler_hook.expander.decision import (
    Unplanned,
    cheapest_that_fits,
    decide_without_plan,
    with_plan,
)
from cluster_autoscaler_hook.expander.decode import (
    DecodeTimeout,
    RequestError,
    Undecoded,
    decode,
    first_look,
)
from cluster_autoscaler_hook.expander.last_good_catalogue import LastGoodCatalogue
from cluster_autoscaler_hook.expander.model import GroupChoice, Score
from cluster_autoscaler_hook.expander.plan import Solve
from cluster_autoscaler_hook.expander.prices import price_groups
from cluster_autoscaler_hook.expander.scale_up_request import ScaleUpRequest
from cluster_autoscaler_hook.expander.settings import Settings
from cluster_autoscaler_hook.expander.time_limit import TimeLimited
from cluster_autoscaler_hook.solver.deadline import Deadline
from surgekit.decision import Decision
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
        unplanned = self._decide(look, deadline)
        # In shadow return every option: the caller's next expander decides, as without us.
        groups = {option.group for option in look.options}
        if mode is Mode.ENFORCE:
            if not unplanned.settled:
                unplanned = Unplanned(self._planned(unplanned))
            groups = set(unplanned.decision.action.groups)
        answer = _answer(look, groups)
        seconds, options, problems = time.monotonic() - started_s, len(look.options), look.problems
        self._afterwards.submit(lambda: self._record(self._planned(unplanned), options, problems, seconds))
        return answer

    def _decide(self, look: Undecoded, deadline: Deadline) -> Unplanned:
        """The decision does not keep the request's bytes, which may be many."""
        catalogue, age_s = None, 0.0
        if self._catalogue:
            catalogue, age_s = self._catalogue.current(), self._catalogue.age_s()
            self.metrics.catalogue_faulty.set(self._catalogue.error is not None)
        prices = price_groups(look.templates.values(), catalogue, self.settings.price_labels, age_s)
        try:
            request = ScaleUpRequest(decode(look, deadline), prices, self._overhead, deadline)
            return decide_without_plan(request)
        except (DecodeTimeout, RequestError) as error:
            why = str(error)
        except Exception as error:  # a bug of ours must not prevent the scale-up
            log.exception("decision failed")
            why = f"decision failed: {error!r}"
        return Unplanned(cheapest_that_fits(look.options, look.templates, prices, why))

    def _planned(self, unplanned: Unplanned) -> Decision[GroupChoice]:
        try:
            return with_plan(unplanned, self._solve)
        except Exception as error:  # a bug of ours costs only the plan
            log.exception("plan failed")
            without = unplanned.decision
            return replace(without, action=replace(without.action, fallback=f"plan failed: {error!r}"))

    def _record(
        self, decision: Decision[GroupChoice], options: int, problems: tuple[str, ...], seconds: float
    ) -> None:
        mode, choice = self.settings.mode, decision.action
        self.metrics.seconds.observe(seconds)
        self.metrics.decisions.labels(mode, "fallback" if choice.fallback else "planned").inc()
        self.metrics.unpriced.inc(len(choice.unpriced))
        if choice.scores:
            self.metrics.cost.set(choice.scores[0].total_per_hour)
        if choice.plan_per_hour is not None:
            self.metrics.plan_cost.set(choice.plan_per_hour)
        said = {
            "decision": list(choice.groups),
            "mode": str(mode),
            "options": options,
            "valid": decision.valid,
            "reasons": [*decision.reasons, *problems],
            "inputs_age_s": {source: round(age_s, 1) for source, age_s in decision.inputs_age_s.items()},
            "fallback": choice.fallback,
            "plan_per_hour": choice.plan_per_hour,
            "duration_ms": round(seconds * 1000, 1),
        }
        log.info("best options", **said)
        scores = [_shown(score) for score in choice.scores[:_SCORES_SHOWN]]
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
