"""One term as the leader: rounds of looking, deciding and writing.

What a term remembers is only what the watches have not told of yet, and since when things are as they are;
the next leader starts from what the API server has.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import structlog

from cluster_autoscaler_hook.catalogue import Catalogue, CatalogueError
from cluster_autoscaler_hook.karpenter import nodeplan
from cluster_autoscaler_hook.karpenter.actuator import Actuator
from cluster_autoscaler_hook.karpenter.batch import Batch
from cluster_autoscaler_hook.karpenter.demand import offers
from cluster_autoscaler_hook.karpenter.metrics import HookMetrics
from cluster_autoscaler_hook.karpenter.model import Claim, ClusterView, Offer, Plan, PlannedNode
from cluster_autoscaler_hook.karpenter.nodeplan import Phase
from cluster_autoscaler_hook.karpenter.plan import Solve, make_plan, resume, rooms_of, unplaced
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.karpenter.steering import steer
from cluster_autoscaler_hook.karpenter.strict_catalogue import StrictCatalogue
from cluster_autoscaler_hook.model import InfeasibleProblem, InvalidProblem
from cluster_autoscaler_hook.verifier import VerificationError
from surgekit.modes import Mode

__all__ = ["LONGEST_SLEEP_S", "Source", "Term"]

log = structlog.get_logger(__name__)
LONGEST_SLEEP_S = 1.0  # the lease, the catalogue file and the clock tell of no change by themselves
_RELEASE_S = 2.0  # after which a pod that is still seen behind its gate is released again
_TOLD_S = 30.0  # after which a claim of ours the watch has not told of was made and gone in a break of it


class Source(Protocol):
    """What is read of the cluster."""

    @property
    def known_claims(self) -> set[str]: ...

    def view(self, now_s: float, with_shadow: bool) -> ClusterView: ...

    def refused(self) -> list[Claim]: ...

    def overhead(self) -> tuple[int, int, int]: ...


class Term:
    def __init__(
        self, settings: Settings, source: Source, actuator: Actuator, metrics: HookMetrics, solve: Solve
    ) -> None:
        self.settings, self._source, self._actuator = settings, source, actuator
        self.metrics, self._solve = metrics, solve
        # A leader that rents plans for the pods it may rent for; one that does not, for all that opted in.
        self._with_shadow = settings.mode is Mode.SHADOW
        self._catalogue = StrictCatalogue(settings.catalogue)
        self._batch = Batch(settings)
        self._resumed = False
        self._intent: tuple[PlannedNode, ...] = ()
        self._unavailable: dict[str, float] = {}  # class -> until when, Unix time
        self._created: dict[str, Claim] = {}  # made by us, not seen by the watch yet
        self._released: dict[str, tuple[str, float]] = {}  # pod uid -> node and when, not seen yet
        self._removed: set[str] = set()
        self._empty_since: dict[str, float] = {}
        self._fits_since: dict[str, float] = {}
        self._last: tuple[Plan, str] | None = None
        self._written: Any = None
        self._condition: dict[str, Any] | None = None

    def round(self) -> float:
        """Look, decide, write; how long to sleep if nothing happens."""
        now_s, now = time.monotonic(), time.time()
        self._resume(now)
        catalogue, digest, trouble = self._read_catalogue()
        view = self._overlaid(self._source.view(now_s, self._with_shadow))
        self._note_refusals(now)
        if catalogue is None:
            self._write(Plan(), Phase.IDLE, view, {}, "", trouble, now)
            return LONGEST_SLEEP_S
        known = {offer.name: offer for offer in self._offers(catalogue, view, {})}
        sleeps = [LONGEST_SLEEP_S]
        if self.settings.mode is Mode.ENFORCE:
            sleeps.append(self._steer(view, known, now))
            view = self._overlaid(self._source.view(now_s, self._with_shadow))
        sleeps.append(self._plan(view, catalogue, digest, known, now_s, now))
        return min(sleeps)

    def _resume(self, now: float) -> None:
        if not self._resumed:
            found = self._actuator.read_plan()
            self._intent = nodeplan.intended(found)
            self._unavailable = nodeplan.unavailable_of(found, now)
            self._resumed = True

    def _read_catalogue(self) -> tuple[Catalogue | None, str, str]:
        try:
            return (*self._catalogue.read(), "")
        except CatalogueError as error:
            log.error("catalogue cannot be used", error=str(error))
            return None, "", f"catalogue: {error}"

    def _offers(
        self, catalogue: Catalogue, view: ClusterView, unavailable: Mapping[str, float]
    ) -> tuple[Offer, ...]:
        seen = {
            node.instance_class: (node.cpu_millicores, node.memory_bytes, node.pods)
            for node in view.nodes.values()
            if node.registered and node.cpu_millicores
        }
        return offers(catalogue, self.settings, seen, self._source.overhead(), set(unavailable))

    def _overlaid(self, view: ClusterView) -> ClusterView:
        """The view with our own writes that the watches have not told of yet."""
        told, now = self._source.known_claims, time.time()
        self._created = {
            name: claim
            for name, claim in self._created.items()
            if name not in told and now - claim.created < _TOLD_S
        }
        gated = {pod.uid for pod in view.waiting if pod.gated}
        self._released = {
            uid: (node, at)
            for uid, (node, at) in self._released.items()
            if uid in gated and now - at < _RELEASE_S
        }
        pods = tuple(
            replace(p, nominated=self._released[p.uid][0], released=True) if p.uid in self._released else p
            for p in view.waiting
        )
        return replace(view, waiting=pods, claims=(*view.claims, *self._created.values()))

    def _note_refusals(self, now: float) -> None:
        for claim in self._source.refused():
            if claim.name not in self._removed and claim.instance_class:
                self._leave_out(claim.instance_class, f"{claim.name} was not launched", now)
        self._unavailable = {name: until for name, until in self._unavailable.items() if until > now}

    def _leave_out(self, instance_class: str, reason: str, now: float) -> None:
        self._unavailable[instance_class] = now + self.settings.unavailable_for_s
        self.metrics.refusals.inc()
        log.warning("class left out", instance_class=instance_class, decision=reason)

    def _steer(self, view: ClusterView, known: Mapping[str, Offer], now: float) -> float:
        empty = {c.name for c in view.claims if not ((n := view.node_of(c)) and n.workload_pods)}
        self._empty_since = {name: self._empty_since.get(name, now) for name in empty}
        steering = steer(view, known, self.settings, self._empty_since, now)
        released = self._actuator.release(steering.releases)
        self._released |= {r.uid: (r.node, time.time()) for r in released}
        for removal in steering.removals:
            self._removed.add(removal.claim)
            if removal.unavailable:
                self._leave_out(removal.unavailable, removal.reason, now)
        self._actuator.remove(steering.removals)
        return LONGEST_SLEEP_S if steering.again_in_s is None else steering.again_in_s

    def _stuck(self, view: ClusterView, placed: Mapping[str, str], now: float) -> frozenset[str]:
        """Pods that should fit a node that is there, and that the scheduler has tried in vain for long."""
        there = {
            c.name for c in view.claims if (node := view.node_of(c)) and node.registered and not node.deleting
        }
        fitting = {p.uid for p in view.waiting if not p.gated and placed.get(p.uid) in there}
        self._fits_since = {uid: self._fits_since.get(uid, now) for uid in fitting}
        patience_s = self.settings.stuck_after_s
        return frozenset(uid for uid, since in self._fits_since.items() if now - since > patience_s)

    def _plan(
        self,
        view: ClusterView,
        catalogue: Catalogue,
        digest: str,
        known: Mapping[str, Offer],
        now_s: float,
        now: float,
    ) -> float:
        _, placed = unplaced(view.waiting, rooms_of(view, known, self.settings.pool))
        stuck = self._stuck(view, placed, now)
        homeless = frozenset(p.uid for p in view.waiting if p.uid not in placed or p.uid in stuck)
        self.metrics.waiting.set(len(view.waiting))
        world = (digest, tuple(sorted(self._unavailable)), len(view.claims))
        due_s = self._batch.due_in_s(homeless, world, now_s)
        if due_s is None:
            self._intent = ()
            if self._last and not view.waiting:
                # The last plan stays to be read; what runs is brought up to date.
                self._write(*self._last, view, known, catalogue.currency, "", now)
            return LONGEST_SLEEP_S
        if due_s > 0 and not self._intent:
            return due_s
        plan, trouble = self._decide(view, catalogue, known, stuck)
        if self._read_catalogue()[1] != digest:
            log.info("catalogue changed during a solve; planning anew")
            return 0.0
        self._batch.answered(homeless, world, time.monotonic())
        self._fits_since = {uid: s for uid, s in self._fits_since.items() if uid not in stuck}
        self._carry_out(plan, view, known, catalogue, trouble, now)
        return 0.0

    def _decide(
        self, view: ClusterView, catalogue: Catalogue, known: Mapping[str, Offer], stuck: frozenset[str]
    ) -> tuple[Plan, str]:
        intent, self._intent = self._intent, ()
        if intent and (rest := resume(intent, view, known, self.settings.pool)).nodes:
            return rest, ""
        began_s = time.monotonic()
        try:
            offered = self._offers(catalogue, view, self._unavailable)
            plan = make_plan(view, offered, self.settings, self._solve, known, stuck)
        except (InvalidProblem, InfeasibleProblem, VerificationError) as error:
            # Nothing is rented on an answer nobody can stand for.
            log.error("no plan", error=str(error))
            return Plan(), f"solver: {error}"
        finally:
            self.metrics.plan_seconds.observe(time.monotonic() - began_s)
        return plan, ""

    def _carry_out(
        self,
        plan: Plan,
        view: ClusterView,
        known: Mapping[str, Offer],
        catalogue: Catalogue,
        trouble: str,
        now: float,
    ) -> None:
        log.info(
            "plan",
            decision=plan.id or "nothing",
            mode=str(self.settings.mode),
            nodes=len(plan.nodes),
            cost_per_hour=round(plan.cost_per_hour, 6),
            shortages=len(plan.shortages),
        )
        self.metrics.planned(plan)
        if self.settings.mode is not Mode.ENFORCE or not plan.nodes:
            phase = Phase.SHADOW if plan.nodes else Phase.IDLE
            self._write(plan, phase, view, known, catalogue.currency, trouble, now)
            return
        # Written down first: a replica that takes over in between makes the same claims, not others.
        self._write(plan, Phase.LAUNCHING, view, known, catalogue.currency, trouble, now)
        made, failures = self._actuator.create_claims(plan)
        self._created |= {
            node.claim: Claim(node.claim, node.instance_class, node.pods, now)
            for node in plan.nodes
            if node.claim in made
        }
        if failures:
            trouble = f"claims: {failures[0]}"
        self._write(plan, Phase.LAUNCHED, view, known, catalogue.currency, trouble, now)

    def _write(
        self,
        plan: Plan,
        phase: str,
        view: ClusterView,
        known: Mapping[str, Offer],
        currency: str,
        trouble: str,
        now: float,
    ) -> None:
        self._last = (plan, phase)
        status = nodeplan.status_of(
            plan, phase, view, known, self._unavailable, self.settings, currency, trouble, now
        )
        (condition,) = status["conditions"]
        if self._condition and self._condition["status"] == condition["status"]:
            condition["lastTransitionTime"] = self._condition["lastTransitionTime"]
        content = {k: v for k, v in status.items() if k != "observedTime"}
        if content != self._written:
            self._actuator.write_plan(status)
            self._written, self._condition = content, condition
