"""What to rent: FCMA's plan for the pods that fit neither running nodes nor those being prepared.

Level-based: a plan follows from what the API server has, so a hook that starts in the middle of a plan
continues it. Each claim records the pods it is for; these pods are not planned for twice.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from cluster_autoscaler_hook.karpenter.demand import in_zones, problem_of, unservable
from cluster_autoscaler_hook.karpenter.labels import INSTANCE_TYPE, POOL_LABEL, ZONE
from cluster_autoscaler_hook.karpenter.model import (
    ClusterView,
    Kind,
    Market,
    Offer,
    Plan,
    PlannedNode,
    Room,
    Shortage,
    WaitingPod,
)
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.solver.model import InfeasibleProblem, InvalidProblem, Problem, Solution
from cluster_autoscaler_hook.solver.verifier import VerificationError
from surgekit.decision import Decision

__all__ = ["Solve", "make_plan", "resume", "rooms_of", "unplaced"]

Solve = Callable[[Problem], Solution]


def rooms_of(view: ClusterView, offered: Mapping[str, Offer], pool: str) -> list[Room]:
    """Free space on our nodes: as they report it, or as their class has it until they register."""
    rooms = []
    for claim in view.claims:
        node = view.node_of(claim)
        if claim.deleting or (node is not None and node.deleting):
            continue
        if node is not None:
            rooms.append(
                Room(
                    claim,
                    node.labels,
                    node.cpu_millicores - node.used_cpu_millicores,
                    node.memory_bytes - node.used_memory_bytes,
                    node.pods - node.used_pods,
                    dict(node.bound),
                    set(node.exclusive),
                    node.name,
                )
            )
            continue
        zone = {ZONE: claim.zone} if claim.zone else {}
        if offer := offered.get(claim.instance_class):
            labels = {**offer.labels, **zone}
            rooms.append(Room(claim, labels, offer.cpu_millicores, offer.memory_bytes, offer.pods, {}))
        else:  # the class is no longer in the catalogue: room for the pods it was made for, and no more
            labels = {POOL_LABEL: pool, INSTANCE_TYPE: claim.instance_class, **zone}
            cpu, memory = claim.requested_cpu_millicores, claim.requested_memory_bytes
            rooms.append(Room(claim, labels, cpu, memory, sum(claim.planned.values()), {}))
    return rooms


def unplaced(waiting: Collection[WaitingPod], rooms: list[Room]) -> tuple[Counter[Kind], dict[str, str]]:
    """Count the pods that fit in no room, by kind; map every other pod (uid) to its claim.

    Pods go first where they are nominated, then to a claim that was made for their kind, then wherever they
    fit, large pods first.
    """
    by_kind: dict[Kind, list[WaitingPod]] = {}
    for pod in sorted(waiting, key=lambda pod: pod.uid):
        by_kind.setdefault(pod.kind, []).append(pod)
    kinds = {kind.id: kind for kind in by_kind}
    placed: dict[str, str] = {}
    left = {kind: list(pods) for kind, pods in by_kind.items()}
    for room in rooms:
        for kind, pods in left.items():
            for pod in [pod for pod in pods if room.node and pod.nominated == room.node]:
                if room.takes(kind):
                    room.add(kind)
                    pods.remove(pod)
                    placed[pod.uid] = room.claim.name
    for room in rooms:
        for kind_id, planned in sorted(room.claim.planned.items()):
            if kind_id not in kinds:
                continue
            kind = kinds[kind_id]
            while left[kind] and room.kinds.get(kind_id, 0) < planned and room.takes(kind):
                room.add(kind)
                placed[left[kind].pop().uid] = room.claim.name
    for kind in sorted(left, key=_size, reverse=True):
        for room in rooms:
            while left[kind] and room.takes(kind):
                room.add(kind)
                placed[left[kind].pop().uid] = room.claim.name
    return Counter({kind: len(pods) for kind, pods in left.items() if pods}), placed


def make_plan(view: ClusterView, market: Market, settings: Settings, solve: Solve) -> Decision[Plan]:
    """The nodes to rent now. Not valid if the solver fails: then nothing may be rented."""
    known = market.known
    counts, _ = unplaced(view.waiting, rooms_of(view, known, settings.pool))
    kinds = {kind.id: kind for kind in counts}
    if not counts:
        reasons = ("every waiting pod fits nodes that run or are being prepared",)
        return Decision(Plan(), reasons, view.ages_s)
    offered = in_zones(market.available or (), settings.zones, counts)
    shortages = unservable(counts, offered)
    unservable_kinds = {shortage.kind for shortage in shortages}
    servable = {kind: count for kind, count in counts.items() if kind.id not in unservable_kinds}
    if not servable:
        nothing = Plan(kinds=kinds, shortages=tuple(shortages))
        return Decision(nothing, ("no class can serve the waiting pods",), view.ages_s)
    try:
        solution = solve(problem_of(servable, offered))
    except (InvalidProblem, InfeasibleProblem, VerificationError) as error:
        return Decision(Plan(), (f"solver: {error}",), view.ages_s, valid=False)
    by_name = {offer.name: offer for offer in offered}
    wanted = [
        PlannedNode("", offer.instance_class, offer.price_per_hour, pods, offer.zone)
        for node in solution.allocation.nodes
        if (pods := {kind: count for kind, count in node.containers.items() if count})
        if (offer := by_name[node.instance_class])
    ]
    kept, cut = _within_limits(wanted, view, known, settings)
    plan_id = _id(kept, view)
    nodes = tuple(replace(node, claim=f"{settings.pool}-{plan_id}-{i}") for i, node in enumerate(kept))
    plan = Plan(
        id=plan_id,
        nodes=nodes,
        kinds=kinds,
        cost_per_hour=sum(node.price_per_hour for node in nodes),
        lower_bound_per_hour=solution.lower_bound_per_hour,
        shortages=(*shortages, *cut),
        deadline_reached=solution.deadline_reached,
    )
    return Decision(plan, solution.steps, view.ages_s)


def resume(
    unfinished: Collection[PlannedNode], view: ClusterView, known: Mapping[str, Offer], pool: str
) -> Decision[Plan]:
    """The rest of a plan whose claims were not all created.

    Not valid if there is no rest, or if a missing node is no longer needed; then a new plan is made.
    """
    there = {claim.name for claim in view.claims}
    missing = tuple(node for node in unfinished if node.claim not in there)
    counts, _ = unplaced(view.waiting, rooms_of(view, known, pool))
    kinds = {kind.id: kind for kind in counts}
    needed = Counter({kind.id: count for kind, count in counts.items()})
    served: Counter[str] = Counter()
    for node in missing:
        served.update(node.pods)
    if not missing or not served <= needed or any(node.instance_class not in known for node in missing):
        return Decision(Plan(), ("the plan before the restart no longer holds",), view.ages_s, valid=False)
    plan_id = missing[0].claim.rsplit("-", 2)[1]
    cost = sum(node.price_per_hour for node in missing)
    rest = Plan(id=plan_id, nodes=missing, kinds=kinds, cost_per_hour=cost)
    return Decision(rest, ("resumed after a restart",), view.ages_s)


def _size(kind: Kind) -> tuple[float, str]:
    """One CPU counts as much as 4 GiB: the machines of the price table have 2 to 8 GiB a CPU."""
    return max(kind.cpu_millicores / 1000, kind.memory_bytes / (4 << 30)), kind.id


class _Totals(NamedTuple):
    nodes: int
    cpu: float
    cost: float


def _within_limits(
    wanted: list[PlannedNode], view: ClusterView, known: Mapping[str, Offer], settings: Settings
) -> tuple[list[PlannedNode], list[Shortage]]:
    """The wanted nodes that the limits allow. Nodes that serve most pods for their price come first."""
    running = [known[c.instance_class] for c in view.claims if c.instance_class in known]
    total = _Totals(
        len(view.claims),
        sum(offer.cpu_millicores for offer in running) / 1000,
        sum(offer.price_per_hour for offer in running),
    )
    kept: list[PlannedNode] = []
    cut: Counter[tuple[str, str]] = Counter()
    by_worth = sorted(wanted, key=lambda n: (-sum(n.pods.values()) / n.price_per_hour, n.instance_class))
    for node in by_worth:
        then = _Totals(
            total.nodes + 1,
            total.cpu + known[node.instance_class].cpu_millicores / 1000,
            total.cost + node.price_per_hour,
        )
        limit = _limit_passed(then, settings)
        if limit:
            cut.update({(kind, limit): count for kind, count in node.pods.items()})
        else:
            kept.append(node)
            total = then
    return kept, [Shortage(kind, count, reason) for (kind, reason), count in sorted(cut.items())]


def _limit_passed(total: _Totals, settings: Settings) -> str:
    slack = 1 + 1e-9  # a total equal to the limit is allowed
    if total.nodes > settings.max_nodes:
        return f"max_nodes is {settings.max_nodes}"
    if total.cpu > settings.max_cpu * slack:
        return f"max_cpu is {settings.max_cpu:g}"
    if total.cost > settings.max_cost_per_hour * slack:
        return f"max_cost_per_hour is {settings.max_cost_per_hour:g}"
    return ""


def _id(nodes: list[PlannedNode], view: ClusterView) -> str:
    """A hash of the nodes, the waiting pods and the existing claims: the same plan gives the same claims."""
    content = [[n.instance_class, n.zone, sorted(n.pods.items())] for n in nodes]
    there = sorted(claim.name for claim in view.claims)
    text = json.dumps([content, sorted(pod.uid for pod in view.waiting), there])
    return hashlib.sha256(text.encode()).hexdigest()[:8]
