"""One term as the leader: rounds of looking, deciding and writing.

What a term remembers is only what the watches have not told of yet, and since when things are as they are;
the next leader starts from what the API server has.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Protocol

import structlog

from cluster_autoscaler_hook.catalogue import Catalogue, CatalogueError
from cluster_autoscaler_hook.karpenter import nodeplan
from cluster_autoscaler_hook.karpenter.actuator import Actuator
from cluster_autoscaler_hook.karpenter.batch import Batch
from cluster_autoscaler_hook.karpenter.claim_lifecycle import Waited, steer
from cluster_autoscaler_hook.karpenter.demand import offers, understood
from cluster_autoscaler_hook.karpenter.labels import GATE
from cluster_autoscaler_hook.karpenter.metrics import HookMetrics
from cluster_autoscaler_hook.karpenter.model import Claim, ClusterView, Offer, Plan, PlannedNode, Shortage
from cluster_autoscaler_hook.karpenter.nodeplan import Phase
from cluster_autoscaler_hook.karpenter.pending_pods import LetGo, triage
from cluster_autoscaler_hook.karpenter.plan import Solve, make_plan, resume, rooms_of, unplaced
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.karpenter.strict_catalogue import StrictCatalogue
from cluster_autoscaler_hook.solver.model import InfeasibleProblem, InvalidProblem
from cluster_autoscaler_hook.solver.verifier import VerificationError
from surgekit.process.modes import Mode

__all__ = ["LONGEST_SLEEP_S", "Source", "Term"]

log = structlog.get_logger(__name__)
LONGEST_SLEEP_S = 1.0  # the lease, the catalogue file and the clock tell of no change by themselves
_RELEASE_S = 2.0  # after which a pod that is still seen behind its gate is released again
_TOLD_S = 30.0  # after which a claim of ours the watch has not told of was made and gone in a break of it
_REPORT_S = 1.0  # between writes of the NodePlan that tell of no new plan


class Source(Protocol):
    """What is read of the cluster."""

    @property
    def known_claims(self) -> set[str]: ...

    def view(self) -> ClusterView: ...

    def refused(self) -> list[Claim]: ...

    def overhead(self) -> tuple[int, int, int]: ...


class Term:
    def __init__(
        self, settings: Settings, source: Source, actuator: Actuator, metrics: HookMetrics, solve: Solve
    ) -> None:
        self.settings, self._source, self._actuator = settings, source, actuator
        self.metrics, self._solve = metrics, solve
        self._catalogue = StrictCatalogue(settings.catalogue, live=settings.mode is Mode.ENFORCE)
        self._batch = Batch(settings)
        self._resumed = False
        self._intent: tuple[PlannedNode, ...] = ()
        self._unavailable: dict[str, float] = {}  # class -> until when, Unix time
        self._created: dict[str, Claim] = {}  # made by us, not seen by the watch yet
        self._released: dict[str, tuple[str, float]] = {}  # pod uid -> node and when, not seen yet
        self._gone: dict[str, float] = {}  # pods let go, and when: not seen yet
        self._waited: dict[str, Waited] = {}
        self._removed: set[str] = set()
        self._empty_since: dict[str, float] = {}
        self._shortages: tuple[Shortage, ...] = ()  # of the last plan
        self._trouble = ""  # why the last plan is none
        self._plan_fields: dict[str, Any] = {}  # not written yet
        self._written: dict[str, Any] = {}
        self._written_s = -float("inf")
        self._condition: dict[str, Any] = {}

    def round(self) -> float:
        """Look, decide, write; how long to sleep if nothing happens."""
        now_s, now = time.monotonic(), time.time()
        self._resume(now)
        self._note_refusals(now)
        catalogue, digest, trouble = self._read_catalogue()
        view = self._look(catalogue, now)
        known = {offer.name: offer for offer in self._offers(catalogue, view, {})} if catalogue else {}
        sleeps = [LONGEST_SLEEP_S]
        if self.settings.mode is Mode.ENFORCE:
            sleeps.append(self._steer(view, catalogue, known, now))
            view = self._look(catalogue, now)
        placed = self._placed(view, known)
        if catalogue:
            sleeps.append(self._plan(view, catalogue, digest, known, placed, now_s, now))
        self._report(view, placed, catalogue, known, trouble, now)
        return min(sleeps)

    def _resume(self, now: float) -> None:
        if not self._resumed:
            found = self._actuator.read_plan()
            self._intent = nodeplan.intended(found)
            self._unavailable = nodeplan.unavailable_of(found, now)
            status = found.get("status") or {}
            self._condition = (status.get("conditions") or [{}])[0]
            if not status:
                self._plan_fields = nodeplan.plan_fields(Plan(), Phase.IDLE, ())
            self._resumed = True

    def _read_catalogue(self) -> tuple[Catalogue | None, str, str]:
        if self.settings.mode is Mode.OFF:
            return None, "", ""
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
            if node.ready and node.cpu_millicores
        }
        return offers(catalogue, self.settings, seen, self._source.overhead(), set(unavailable))

    def _look(self, catalogue: Catalogue | None, now: float) -> ClusterView:
        """The cluster with our own writes that the watches have not told of yet. Pods that nobody will plan
        for are let go."""
        seen = self._source.view()
        self._created = {
            name: claim
            for name, claim in self._created.items()
            if name not in self._source.known_claims and now - claim.created < _TOLD_S
        }
        self._gone = {uid: at for uid, at in self._gone.items() if now - at < _RELEASE_S}
        pods = [pod for pod in seen.pending if pod.uid not in self._gone or GATE not in pod.gates]
        labels = understood(catalogue, self.settings) if catalogue else None
        sorted_out = triage(pods, self.settings.mode, labels, seen.architectures)
        self._let_go(sorted_out.let_go, now)
        waiting = sorted_out.waiting
        gated = {pod.uid for pod in waiting if pod.gated}
        self._released = {
            uid: (node, at)
            for uid, (node, at) in self._released.items()
            if uid in gated and now - at < _RELEASE_S
        }
        # Those let go as well: should the write have failed, they have waited all the same.
        since = {uid: been for uid, been in self._waited.items() if uid in self._gone}
        self._waited = since | {pod.uid: self._waited.get(pod.uid, Waited(now)) for pod in waiting}
        return replace(
            seen,
            claims=(*seen.claims, *self._created.values()),
            waiting=tuple(
                replace(p, nominated=self._released[p.uid][0], released=True)
                if p.uid in self._released
                else p
                for p in waiting
            ),
            held=sorted_out.held,
            left=sorted_out.left,
        )

    def _let_go(self, pods: Collection[LetGo], now: float) -> None:
        self._actuator.let_go(pods)
        self._gone |= {pod.uid: now for pod in pods}

    def _note_refusals(self, now: float) -> None:
        for claim in self._source.refused():
            if claim.name not in self._removed and claim.instance_class:
                self._leave_out(claim.instance_class, f"{claim.name} was not launched", now)
        self._unavailable = {name: until for name, until in self._unavailable.items() if until > now}

    def _leave_out(self, instance_class: str, reason: str, now: float) -> None:
        self._unavailable[instance_class] = now + self.settings.unavailable_for_s
        self.metrics.refusals.inc()
        log.warning("class left out", instance_class=instance_class, decision=reason)

    def _steer(
        self, view: ClusterView, catalogue: Catalogue | None, known: Mapping[str, Offer], now: float
    ) -> float:
        empty = {c.name for c in view.claims if not ((n := view.node_of(c)) and n.workload_pods)}
        self._empty_since = {name: self._empty_since.get(name, now) for name in empty}
        available = self._offers(catalogue, view, self._unavailable) if catalogue else None
        steering = steer(view, known, available, self.settings, self._empty_since, self._waited, now)
        released = self._actuator.release(steering.releases)
        self._released |= {r.uid: (r.node, now) for r in released}
        self._let_go(steering.let_go, now)
        for removal in steering.removals:
            self._removed.add(removal.claim)
            if removal.unavailable:
                self._leave_out(removal.unavailable, removal.reason, now)
        self._actuator.remove(steering.removals)
        return LONGEST_SLEEP_S if steering.again_in_s is None else steering.again_in_s

    def _placed(self, view: ClusterView, known: Mapping[str, Offer]) -> Mapping[str, str]:
        return unplaced(view.waiting, rooms_of(view, known, self.settings.pool))[1]

    def _plan(
        self,
        view: ClusterView,
        catalogue: Catalogue,
        digest: str,
        known: Mapping[str, Offer],
        placed: Mapping[str, str],
        now_s: float,
        now: float,
    ) -> float:
        homeless = frozenset(pod.uid for pod in view.waiting if pod.uid not in placed)
        world = (digest, tuple(sorted(self._unavailable)), len(view.claims))
        due_s = self._batch.due_in_s(homeless, world, now_s)
        if due_s is None:
            self._intent, self._shortages, self._trouble = (), (), ""
            return LONGEST_SLEEP_S
        if due_s > 0 and not self._intent:
            return due_s
        plan, self._trouble = self._decide(view, catalogue, known)
        if self._read_catalogue()[1] != digest:
            log.info("catalogue changed during a solve; planning anew")
            return 0.0
        self._batch.answered(homeless, world, time.monotonic())
        self._shortages = plan.shortages
        self._carry_out(plan, view, homeless, now)
        return 0.0

    def _decide(
        self, view: ClusterView, catalogue: Catalogue, known: Mapping[str, Offer]
    ) -> tuple[Plan, str]:
        intent, self._intent = self._intent, ()
        if intent and (rest := resume(intent, view, known, self.settings.pool)).nodes:
            return rest, ""
        began_s = time.monotonic()
        try:
            offered = self._offers(catalogue, view, self._unavailable)
            plan = make_plan(view, offered, self.settings, self._solve, known)
        except (InvalidProblem, InfeasibleProblem, VerificationError) as error:
            # Nothing is rented on an answer nobody can stand for.
            log.error("no plan", error=str(error))
            return Plan(), f"solver: {error}"
        finally:
            self.metrics.plan_seconds.observe(time.monotonic() - began_s)
        return plan, ""

    def _carry_out(self, plan: Plan, view: ClusterView, homeless: Collection[str], now: float) -> None:
        log.info(
            "plan",
            decision=plan.id or "nothing",
            mode=str(self.settings.mode),
            nodes=len(plan.nodes),
            cost_per_hour=round(plan.cost_per_hour, 6),
            shortages=len(plan.shortages),
        )
        self.metrics.planned(plan)
        waiting = view.waiting
        if self.settings.mode is not Mode.ENFORCE or not plan.nodes:
            phase = Phase.SHADOW if plan.nodes else Phase.IDLE
            self._plan_fields = nodeplan.plan_fields(plan, phase, waiting)
            return
        # Written down first: a replica that takes over in between makes the same claims, not others.
        self._actuator.write_plan(
            {"mode": str(self.settings.mode), "observedTime": nodeplan.time_text(now)}
            | nodeplan.plan_fields(plan, Phase.LAUNCHING, waiting)
        )
        made, failures = self._actuator.create_claims(plan)
        self._created |= {
            node.claim: Claim(node.claim, node.instance_class, node.pods, now, zone=node.zone)
            for node in plan.nodes
            if node.claim in made
        }
        served = {kind for node in plan.nodes for kind in node.pods}
        for pod in waiting:
            if pod.uid in homeless and pod.kind.id in served:
                before = self._waited[pod.uid]
                self._waited[pod.uid] = replace(before, plans=before.plans + 1)
        if failures:
            self._trouble = f"claims: {failures[0]}"
        self._plan_fields = nodeplan.plan_fields(plan, Phase.LAUNCHED, waiting)

    def _report(
        self,
        view: ClusterView,
        placed: Mapping[str, str],
        catalogue: Catalogue | None,
        known: Mapping[str, Offer],
        trouble: str,
        now: float,
    ) -> None:
        self.metrics.waiting.set(len(view.waiting) + sum(group.pods for group in view.held))
        self.metrics.left.set(sum(group.pods for group in view.left))
        content = nodeplan.live_fields(
            view,
            placed,
            self._shortages,
            known,
            understood(catalogue, self.settings) if catalogue else (),
            self._unavailable,
            self.settings,
            catalogue.currency if catalogue else "",
            trouble,
            self._trouble,
            now,
        )
        (condition,) = content["conditions"]
        if self._condition.get("status") == condition["status"]:
            condition["lastTransitionTime"] = self._condition["lastTransitionTime"]
        now_s, observed = time.monotonic(), content.pop("observedTime")
        if not self._plan_fields and (content == self._written or now_s - self._written_s < _REPORT_S):
            return
        self._actuator.write_plan(self._plan_fields | content | {"observedTime": observed})
        self._plan_fields, self._written, self._condition = {}, content, condition
        self._written_s = now_s
