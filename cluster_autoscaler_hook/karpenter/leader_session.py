"""What a replica does while it leads: in each step it reads the cluster, decides and writes.

A session remembers only its own writes that the watches have not shown yet, and since when things are as they
are. A new leader starts from what the API server has.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import structlog

from cluster_autoscaler_hook.catalogue import Catalogue, CatalogueError
from cluster_autoscaler_hook.karpenter import nodeplan
from cluster_autoscaler_hook.karpenter.actuator import Actuator
from cluster_autoscaler_hook.karpenter.assumed_writes import AssumedWrites
from cluster_autoscaler_hook.karpenter.batch import Batch
from cluster_autoscaler_hook.karpenter.claim_lifecycle import History, WaitHistory, reconcile_claims
from cluster_autoscaler_hook.karpenter.demand import offers, understood_labels
from cluster_autoscaler_hook.karpenter.metrics import HookMetrics
from cluster_autoscaler_hook.karpenter.model import Claim, ClusterView, Market, Offer, Plan, PlannedNode
from cluster_autoscaler_hook.karpenter.nodeplan import Phase, Report
from cluster_autoscaler_hook.karpenter.notices import class_left_out
from cluster_autoscaler_hook.karpenter.pending_pods import HandOver, classify, group_by_reason
from cluster_autoscaler_hook.karpenter.plan import Solve, make_plan, resume, rooms_of, unplaced
from cluster_autoscaler_hook.karpenter.reporter import Reporter
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.karpenter.size_requests import (
    HELD_REASON,
    SizeRequests,
    choose_requests,
    read_requests,
)
from cluster_autoscaler_hook.karpenter.strict_catalogue import StrictCatalogue
from surgekit.decision import Decision
from surgekit.kube.client import ApiError, KubeUnreachable
from surgekit.process.modes import Mode

__all__ = ["LONGEST_SLEEP_S", "LeaderSession", "Source"]

log = structlog.get_logger(__name__)
LONGEST_SLEEP_S = 1.0  # no watch reports a change of the Lease, the catalogue file or the time


class Source(Protocol):
    """The tables that the watches keep."""

    @property
    def known_claims(self) -> set[str]: ...

    def view(self) -> ClusterView: ...

    def refused(self) -> list[Claim]: ...

    def overhead(self) -> tuple[int, int, int]: ...

    def ages_s(self, now_s: float) -> Mapping[str, float]: ...


@dataclass(frozen=True)
class _Prices:
    """The catalogue as it is now, or the error."""

    catalogue: Catalogue | None = None
    digest: str = ""
    error: str = ""


@dataclass(frozen=True)
class _Observed:
    """The cluster and the catalogue in one step."""

    view: ClusterView
    market: Market
    prices: _Prices
    placed: Mapping[str, str]  # uid of each pod that has room on our nodes -> claim

    @cached_property
    def without_room(self) -> frozenset[str]:
        return frozenset(pod.uid for pod in self.view.waiting if pod.uid not in self.placed)


class LeaderSession:
    def __init__(
        self, settings: Settings, source: Source, actuator: Actuator, metrics: HookMetrics, solve: Solve
    ) -> None:
        self.settings, self._source, self._actuator = settings, source, actuator
        self.metrics, self._solve = metrics, solve
        self._catalogue = StrictCatalogue(settings.catalogue, live=settings.mode is Mode.ENFORCE)
        self._batch = Batch(settings)
        self._assumed = AssumedWrites()
        self._resumed = False
        self._unfinished: tuple[PlannedNode, ...] = ()  # of a plan that the leader before us began
        self._unavailable: dict[str, float] = {}  # class -> left out until (Unix time)
        self._size_requests = SizeRequests()
        self._waits: dict[str, WaitHistory] = {}
        self._empty_since: dict[str, float] = {}
        self._removed_claims: set[str] = set()
        self._last_plan = Plan()
        self._plan_error = ""
        self._reporter = Reporter(settings, actuator)

    def step(self) -> float:
        """Read, decide, write. Return the seconds until the next step if nothing changes before."""
        now_s, now = time.monotonic(), time.time()
        self._resume(now)
        self._note_refused_claims(now)
        prices = self._read_prices()
        view = self._look(prices.catalogue, now)
        sleeps_s = [LONGEST_SLEEP_S]
        if self.settings.mode is Mode.ENFORCE:
            sleeps_s.append(self._reconcile_claims(view, prices.catalogue, now))
            view = self._look(prices.catalogue, now)
        market = self._market(prices.catalogue, view)
        placed = unplaced(view.waiting, rooms_of(view, market.known, self.settings.pool))[1]
        seen = _Observed(view, market, prices, placed)
        if prices.catalogue:
            sleeps_s.append(self._plan(seen, now_s, now))
        self._report(seen, now)
        return min(sleeps_s)

    def stop(self) -> None:
        """Stop gating: maybe no other replica takes over, and new pods must not wait for one."""
        try:
            self._actuator.write_plan({"gating": False})
        except (ApiError, KubeUnreachable) as error:
            log.warning("new pods are still gated", error=str(error))

    # --- reading ---

    def _resume(self, now: float) -> None:
        if self._resumed:
            return
        found = self._actuator.read_plan()
        self._unfinished = nodeplan.unfinished_nodes(found)
        self._unavailable = nodeplan.unavailable_classes(found, now)
        self._size_requests.resume(read_requests(found.get("status") or {}))
        self._reporter.resume(found.get("status") or {})
        self._resumed = True

    def _read_prices(self) -> _Prices:
        if self.settings.mode is Mode.OFF:
            return _Prices()
        try:
            return _Prices(*self._catalogue.read())
        except CatalogueError as error:
            log.error("catalogue cannot be used", error=str(error))
            return _Prices(error=str(error))

    def _market(self, catalogue: Catalogue | None, view: ClusterView) -> Market:
        if catalogue is None:
            return Market({})
        known = self._offers(catalogue, view, ())
        return Market(
            {offer.name: offer for offer in known}, self._offers(catalogue, view, self._unavailable)
        )

    def _offers(
        self, catalogue: Catalogue, view: ClusterView, unavailable: Collection[str]
    ) -> tuple[Offer, ...]:
        seen = {
            node.instance_class: (node.cpu_millicores, node.memory_bytes, node.pods)
            for node in view.nodes.values()
            if node.ready and node.cpu_millicores
        }
        return offers(catalogue, self.settings, seen, self._source.overhead(), set(unavailable))

    def _look(self, catalogue: Catalogue | None, now: float) -> ClusterView:
        """The cluster as the watches show it, with our own writes. Hands over pods that will not be planned
        for."""
        seen = self._source.view()
        self._assumed.expire(self._source.known_claims, now)
        pods = self._assumed.without_handed_over(seen.pending)
        labels = understood_labels(catalogue, self.settings) if catalogue else None
        classified = classify(pods, self.settings.mode, labels, seen.architectures)
        self._hand_over(classified.hand_overs, now)
        # A pod that was handed over keeps its history: if the write failed, it has waited all the same.
        kept = {uid: self._waits[uid] for uid in self._assumed.handed_over_uids & self._waits.keys()}
        self._waits = kept | {
            pod.uid: self._waits.get(pod.uid, WaitHistory(now)) for pod in classified.waiting
        }
        waiting, held = self._size_requests.hold(classified.waiting, now)
        return replace(
            seen,
            claims=(*seen.claims, *self._assumed.claims),
            waiting=self._assumed.with_releases(waiting),
            held=(*classified.held, *group_by_reason((pod, HELD_REASON) for pod in held)),
            left_to_karpenter=classified.left_to_karpenter,
            ages_s=self._source.ages_s(time.monotonic()),
        )

    # --- claims and pods that exist ---

    def _note_refused_claims(self, now: float) -> None:
        for claim in self._source.refused():
            if claim.name not in self._removed_claims and claim.instance_class:
                self._leave_out(claim.instance_class, f"{claim.name} was not launched", now)
        self._unavailable = {name: until for name, until in self._unavailable.items() if until > now}

    def _leave_out(self, instance_class: str, reason: str, now: float) -> None:
        self._unavailable[instance_class] = now + self.settings.unavailable_for_s
        self.metrics.refusals.inc()
        log.warning("class left out", instance_class=instance_class, decision=reason)
        self._actuator.notify(class_left_out(instance_class, reason, self.settings.unavailable_for_s))

    def _hand_over(self, pods: Collection[HandOver], now: float) -> None:
        self._actuator.hand_over(pods)
        self._assumed.handed_over(pods, now)

    def _reconcile_claims(self, view: ClusterView, catalogue: Catalogue | None, now: float) -> float:
        empty = {c.name for c in view.claims if not ((n := view.node_of(c)) and n.workload_pods)}
        self._empty_since = {name: self._empty_since.get(name, now) for name in empty}
        history = History(self._empty_since, self._waits)
        actions = reconcile_claims(view, self._market(catalogue, view), self.settings, history, now)
        self._assumed.released(self._actuator.release(actions.releases), now)
        self._hand_over(actions.hand_overs, now)
        for removal in actions.removals:
            self._removed_claims.add(removal.claim)
            if removal.unavailable_class:
                self._leave_out(removal.unavailable_class, removal.reason, now)
        self._actuator.delete_claims(actions.removals)
        return LONGEST_SLEEP_S if actions.requeue_after_s is None else actions.requeue_after_s

    # --- plans ---

    def _plan(self, seen: _Observed, now_s: float, now: float) -> float:
        """Plan if it is time to. Return the seconds until the next step."""
        inputs = (seen.prices.digest, tuple(sorted(self._unavailable)), len(seen.view.claims))
        due_s = self._batch.due_in_s(seen.without_room, inputs, now_s)
        if due_s is None:
            self._unfinished, self._last_plan, self._plan_error = (), Plan(), ""
            return LONGEST_SLEEP_S
        if due_s > 0 and not self._unfinished:
            return due_s
        if not self._unfinished and self._ask_for_sizes(seen, now):
            return 0.0
        decision = self._decide(seen.view, seen.market)
        self._plan_error = "" if decision.valid else decision.reasons[0]
        if self._read_prices().digest != seen.prices.digest:
            log.info("catalogue changed during a solve; planning again")
            return 0.0
        self._batch.planned(seen.without_room, inputs, time.monotonic())
        self._last_plan = decision.action
        self._carry_out(decision, seen, now)
        return 0.0

    def _ask_for_sizes(self, seen: _Observed, now: float) -> bool:
        """Ask functions for sizes whose nodes cost less, and return whether there are any."""
        if not self._size_requests.may_ask(now):
            return False
        decision = choose_requests(seen.view, seen.market, self.settings, self._solve, now)
        if not decision.action:
            return False
        log.info(
            "sizes", decision=[dict(request.sizes) for request in decision.action],
            reason=decision.reasons[0], mode=str(self.settings.mode),
        )  # fmt: skip
        if self.settings.mode is not Mode.ENFORCE:
            return False
        self._size_requests.make(decision.action)
        return True

    def _decide(self, view: ClusterView, market: Market) -> Decision[Plan]:
        unfinished, self._unfinished = self._unfinished, ()
        if unfinished and (rest := resume(unfinished, view, market.known, self.settings.pool)).valid:
            return rest
        with self.metrics.plan_seconds.time():
            return make_plan(view, market, self.settings, self._solve)

    def _carry_out(self, decision: Decision[Plan], seen: _Observed, now: float) -> None:
        plan, waiting = decision.action, seen.view.waiting
        (log.info if decision.valid else log.error)(
            "plan",
            decision=plan.id or "nothing",
            valid=decision.valid,
            reason=decision.reasons[0] if decision.reasons else "",
            inputs_age_s={source: round(age_s, 1) for source, age_s in decision.inputs_age_s.items()},
            mode=str(self.settings.mode),
            nodes=len(plan.nodes),
            cost_per_hour=round(plan.cost_per_hour, 6),
            shortages=len(plan.shortages),
        )
        self.metrics.planned(plan)
        if self.settings.mode is not Mode.ENFORCE or not plan.nodes:
            phase = Phase.SHADOW if plan.nodes else Phase.IDLE
            self._reporter.planned(decision, phase, waiting)
            return
        # Written before the claims are created: a replica that takes over then creates the same ones.
        self._actuator.write_plan(
            {"mode": str(self.settings.mode), "observedTime": nodeplan.time_text(now)}
            | nodeplan.plan_fields(decision, Phase.LAUNCHING, waiting)
        )
        created, failures = self._actuator.create_claims(plan)
        self._assumed.created(
            Claim(node.claim, node.instance_class, node.pods, now, zone=node.zone)
            for node in plan.nodes
            if node.claim in created
        )
        served = {kind for node in plan.nodes for kind in node.pods}
        for pod in waiting:
            if pod.uid in seen.without_room and pod.kind.id in served:
                wait = self._waits[pod.uid]
                self._waits[pod.uid] = replace(wait, plans=wait.plans + 1)
        if failures:
            self._plan_error = f"claims: {failures[0]}"
        self._reporter.planned(decision, Phase.LAUNCHED, waiting)

    def _report(self, seen: _Observed, now: float) -> None:
        view, catalogue = seen.view, seen.prices.catalogue
        self.metrics.waiting.set(len(view.waiting) + sum(group.pods for group in view.held))
        self.metrics.left.set(sum(group.pods for group in view.left_to_karpenter))
        report = Report(
            view,
            seen.placed,
            self._last_plan,
            seen.market.known,
            understood_labels(catalogue, self.settings) if catalogue else (),
            self._unavailable,
            catalogue.currency if catalogue else "",
            seen.prices.error,
            self._plan_error,
            self._size_requests.fields(now),
        )
        self._reporter.report(report, now)
