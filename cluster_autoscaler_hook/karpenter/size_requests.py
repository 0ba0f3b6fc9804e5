"""Asks ComboFuncs for other sizes before nodes are rented, if these are cheaper. Pure; time is an argument.

The request is written into the NodePlan. The controller of the ComboFunc answers by making the pods anew in
these sizes, without an offer, and these are planned for like all others. So nothing is rented for a pod that
does not exist. Meanwhile the pods are held, for a few seconds. If nobody answers they are planned for as they
are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from cluster_autoscaler_hook.karpenter.demand import in_zones, problem_of, unservable
from cluster_autoscaler_hook.karpenter.model import ClusterView, Kind, Market, Offer, WaitingPod
from cluster_autoscaler_hook.karpenter.plan import rooms_of, unplaced
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.karpenter.size_choice import MOST_DEMANDS, Demand, Sizes, choose_sizes
from cluster_autoscaler_hook.solver.model import InfeasibleProblem, InvalidProblem, Problem, Solution
from cluster_autoscaler_hook.solver.verifier import VerificationError
from surgekit.decision import Decision

__all__ = ["HELD_REASON", "SizeRequest", "SizeRequests", "choose_requests", "read_requests"]

Json = dict[str, Any]
Solve = Callable[[Problem], Solution]
HELD_REASON = "its function is asked for sizes whose nodes cost less"
# An answer takes a second or two, and more on a busy control plane. A node takes longer to start.
_ANSWER_S = 20.0
# Pods are made anew only for savings of at least this share.
_WORTH = 0.02
_MOST_OPEN = 32  # requests that wait for an answer
_Group = tuple[str, str, str]  # namespace, uid of the ComboFunc, batch


@dataclass(frozen=True, slots=True)
class SizeRequest:
    namespace: str
    owner: str  # uid of the ComboFunc
    batch: str
    sizes: Sizes
    until: float  # Unix time; then the pods are planned for as they are

    @property
    def group(self) -> _Group:
        return self.namespace, self.owner, self.batch


def _group(pod: WaitingPod) -> _Group | None:
    return (pod.namespace, pod.offer.owner, pod.offer.batch) if pod.offer else None


class SizeRequests:
    """The requests that were made. One is kept while pods of its batch wait, so each batch is asked once."""

    def __init__(self) -> None:
        self._made: dict[_Group, SizeRequest] = {}

    def resume(self, requests: Iterable[SizeRequest]) -> None:
        self._made = {request.group: request for request in requests}

    def make(self, requests: Iterable[SizeRequest]) -> None:
        self._made |= {request.group: request for request in requests}

    def hold(
        self, waiting: Collection[WaitingPod], now: float
    ) -> tuple[tuple[WaitingPod, ...], list[WaitingPod]]:
        """The pods to plan for, those asked in vain without their offer; and the pods that are held."""
        groups = {_group(pod) for pod in waiting}
        self._made = {group: request for group, request in self._made.items() if group in groups}
        planned, held = [], []
        for pod in waiting:
            request = self._made.get(group) if (group := _group(pod)) else None
            if request is None:
                planned.append(pod)
            elif now < request.until:
                held.append(pod)
            else:
                planned.append(replace(pod, offer=None))
        return tuple(planned), held

    def may_ask(self, now: float) -> bool:
        """An object has at most 1.5 MiB, and tenants can make any number of batches."""
        return sum(now < request.until for request in self._made.values()) < _MOST_OPEN

    def fields(self, now: float) -> list[Json]:
        """Those that can still be answered, as the NodePlan has them."""
        return [
            {
                "namespace": request.namespace,
                "function": request.owner,
                "batch": request.batch,
                "sizes": dict(request.sizes),
                "until": datetime.fromtimestamp(request.until, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            for request in sorted(self._made.values(), key=lambda request: request.group)
            if now < request.until
        ]


def read_requests(status: Json) -> list[SizeRequest]:
    """The requests of the leader before us; what cannot be read was not made."""
    found = []
    for entry in status.get("sizeRequests") or ():
        try:
            until = datetime.fromisoformat(entry["until"]).timestamp()
            sizes = {str(name): int(count) for name, count in entry["sizes"].items()}
            found.append(SizeRequest(entry["namespace"], entry["function"], entry["batch"], sizes, until))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            continue
    return found


def choose_requests(
    view: ClusterView, market: Market, settings: Settings, solve: Solve, now: float
) -> Decision[tuple[SizeRequest, ...]]:
    """The sizes to ask for, if they save enough."""
    counts, placed = unplaced(view.waiting, rooms_of(view, market.known, settings.pool))
    demands = _demands(view.waiting, placed)
    if not demands:
        return Decision((), ("no waiting pod offers other sizes",), view.ages_s)
    asked = Counter[Kind]()
    for demand in demands.values():
        asked.update({demand.kinds[name]: count for name, count in demand.asked.items()})
    kinds = {*counts, *(kind for demand in demands.values() for kind in demand.kinds.values())}
    offered = in_zones(market.available or (), settings.zones, kinds)
    fixed = counts - asked
    impossible = {shortage.kind for shortage in unservable(fixed, offered)}
    fixed = Counter({kind: count for kind, count in fixed.items() if kind.id not in impossible})
    choice = choose_sizes(fixed, list(demands.values()), offered, _pricing(offered, solve))
    saved = choice.asked_cost_per_hour - choice.cost_per_hour
    if not choice.sizes or not saved > _WORTH * choice.cost_per_hour:
        return Decision((), choice.reasons, view.ages_s)
    by_id = {demand.id: group for group, demand in demands.items()}
    requests = tuple(
        SizeRequest(*by_id[demand], sizes, now + _ANSWER_S) for demand, sizes in choice.sizes.items()
    )
    return Decision(requests, choice.reasons, view.ages_s)


def _demands(waiting: Iterable[WaitingPod], placed: Mapping[str, str]) -> dict[_Group, Demand]:
    """One for each batch that has no room at all yet, and whose pods are what their offer says."""
    groups: dict[_Group, list[WaitingPod]] = {}
    for pod in sorted(waiting, key=lambda pod: pod.uid):
        if group := _group(pod):
            groups.setdefault(group, []).append(pod)
    found = {}
    for group, pods in sorted(groups.items()):
        demand = None if any(pod.uid in placed for pod in pods) else _demand("/".join(group), pods)
        if demand is not None:
            found[group] = demand
        if len(found) == MOST_DEMANDS:
            break
    return found


def _demand(id_: str, pods: list[WaitingPod]) -> Demand | None:
    offer, kind = pods[0].offer, pods[0].kind
    if offer is None or any(p.offer is None or p.offer.options != offer.options for p in pods):
        return None
    kinds = {
        option.name: replace(kind, cpu_millicores=option.cpu_millicores, memory_bytes=option.memory_bytes)
        for option in offer.options
    }
    asked = Counter(pod.offer.size for pod in pods if pod.offer)
    if any(pod.offer and kinds[pod.offer.size] != pod.kind for pod in pods):
        return None
    concurrency = {option.name: option.concurrency for option in offer.options}
    there = sum(concurrency[name] * count for name, count in asked.items())
    return Demand(id_, min(offer.need, there), asked, kinds, concurrency, offer.most_pods)


def _pricing(offered: Collection[Offer], solve: Solve) -> Callable[[Counter[Kind]], float]:
    def price(counts: Counter[Kind]) -> float:
        if unservable(counts, offered):
            return math.inf
        try:
            return solve(problem_of(counts, offered)).cost_per_hour
        except (InvalidProblem, InfeasibleProblem, VerificationError):
            return math.inf

    return price
