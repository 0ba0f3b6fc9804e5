"""Explains a plan: the pods of each node, which pods force its class, what is lost with the node.

Pure: the command line reads the cluster and prints the explanation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cluster_autoscaler_hook.catalogue import Catalogue
from cluster_autoscaler_hook.karpenter.demand import in_zones, problem_of, unservable
from cluster_autoscaler_hook.karpenter.first_choice import FirstChoice, first_choice
from cluster_autoscaler_hook.karpenter.labels import GATE, INSTANCE_TYPE, OPT_IN_LABEL
from cluster_autoscaler_hook.karpenter.model import Kind, Offer, Shortage
from cluster_autoscaler_hook.karpenter.pending_pods import unknown_label_reason
from cluster_autoscaler_hook.karpenter.plan import Solve
from cluster_autoscaler_hook.karpenter.pods import Unmodelled, gates, is_daemon, is_finished, kind_of

__all__ = ["Demand", "ExplainedNode", "Explanation", "Rented", "demand_of", "explain", "rented_for"]

Json = dict[str, Any]


@dataclass(frozen=True)
class Demand:
    """All pods that opted in, running or waiting."""

    counts: Mapping[Kind, int]
    examples: Mapping[str, str]  # kind id -> one pod of it, namespace/name
    running: int  # pods that have a node
    nodes: frozenset[str]  # the nodes of these pods
    left: Mapping[str, int]  # reason why pods are not planned for -> number of pods


@dataclass(frozen=True)
class Rented:
    """The nodes that run these pods now. A node counts in full even if it runs one of them."""

    nodes: int
    cost_per_hour: float
    unpriced: tuple[str, ...] = ()  # nodes with a class that is not in the catalogue


@dataclass(frozen=True)
class ExplainedNode:
    instance_class: str
    price_per_hour: float
    pods: Mapping[str, int]  # kind id -> pods
    cpu_share: float  # share of what pods can use
    memory_share: float
    # Kind id -> the cheaper class that would do without this kind. Empty: only all kinds together need it.
    forced_by: Mapping[str, str]
    # Kind id -> share of its pods that run on this node.
    loses: Mapping[str, float]


@dataclass(frozen=True)
class Explanation:
    cost_per_hour: float
    lower_bound_per_hour: float
    nodes: tuple[ExplainedNode, ...]
    shortages: tuple[Shortage, ...]
    steps: tuple[str, ...]
    # An estimate of what Karpenter would rent first for the same pods, before it consolidates.
    karpenter_first_choice: FirstChoice


def demand_of(
    pods: Collection[Json],
    namespaces: Mapping[str, str],
    understood_labels: Collection[str],
    architectures: frozenset[str],
) -> Demand:
    """`namespaces`: the value of each opt-in label, for pods without a label of their own."""
    counts: Counter[Kind] = Counter()
    left: Counter[str] = Counter()
    examples: dict[str, str] = {}
    running, nodes = 0, set()
    for pod in pods:
        metadata = pod["metadata"]
        opt_in = (metadata.get("labels") or {}).get(OPT_IN_LABEL, namespaces.get(metadata["namespace"], ""))
        opted_in = opt_in in ("enforce", "shadow") or GATE in gates(pod)
        if not opted_in or is_finished(pod) or is_daemon(pod) or metadata.get("deletionTimestamp"):
            continue
        try:
            kind = kind_of(pod)
        except Unmodelled as error:
            left[str(error)] += 1
            continue
        if reason := unknown_label_reason(kind, understood_labels):
            left[reason] += 1
            continue
        counts[replace(kind, architectures=architectures)] += 1
        examples.setdefault(kind.id, f"{metadata['namespace']}/{metadata['name']}")
        if node := pod["spec"].get("nodeName"):
            running += 1
            nodes.add(node)
    return Demand(counts, examples, running, frozenset(nodes), left)


def rented_for(demand: Demand, nodes: Collection[Json], catalogue: Catalogue) -> Rented:
    cost, unpriced = 0.0, []
    for node in nodes:
        if (name := node["metadata"]["name"]) in demand.nodes:
            entry = catalogue.entries.get((node["metadata"].get("labels") or {}).get(INSTANCE_TYPE, ""))
            if entry is None:
                unpriced.append(name)
            else:
                cost += entry.price_per_hour
    return Rented(len(demand.nodes), cost, tuple(sorted(unpriced)))


def explain(
    counts: Mapping[Kind, int], offered: Collection[Offer], solve: Solve, zones: Collection[str] = ()
) -> Explanation:
    """The plan for these pods in an empty cluster."""
    offered = in_zones(offered, zones, counts)
    shortages = unservable(counts, offered)
    unservable_kinds = {shortage.kind for shortage in shortages}
    servable = {kind: count for kind, count in counts.items() if kind.id not in unservable_kinds}
    if not servable:
        return Explanation(0.0, 0.0, (), tuple(shortages), (), FirstChoice(0.0, {}))
    solution = solve(problem_of(servable, offered))
    kinds = {kind.id: kind for kind in servable}
    by_name = {offer.name: offer for offer in offered}
    nodes = tuple(
        _node(by_name[node.instance_class], node.containers, kinds, servable, offered)
        for node in solution.allocation.nodes
    )
    ordered = tuple(sorted(nodes, key=lambda node: (-node.price_per_hour, node.instance_class)))
    return Explanation(
        solution.cost_per_hour,
        solution.lower_bound_per_hour,
        ordered,
        tuple(shortages),
        solution.steps,
        first_choice(servable, offered),
    )


def _node(
    offer: Offer,
    pods: Mapping[str, int],
    kinds: Mapping[str, Kind],
    counts: Mapping[Kind, int],
    offered: Collection[Offer],
) -> ExplainedNode:
    cpu = sum(kinds[kind].cpu_millicores * count for kind, count in pods.items())
    memory = sum(kinds[kind].memory_bytes * count for kind, count in pods.items())
    forced = {}
    for kind in pods:
        without = {other: count for other, count in pods.items() if other != kind}
        cheaper = _cheapest(without, kinds, offered)
        if without and cheaper and cheaper.price_per_hour < offer.price_per_hour:
            forced[kind] = f"without it {cheaper.name} at {cheaper.price_per_hour:g} would do"
    return ExplainedNode(
        offer.name,
        offer.price_per_hour,
        dict(pods),
        cpu / offer.cpu_millicores,
        memory / offer.memory_bytes,
        forced,
        {kind: count / counts[kinds[kind]] for kind, count in pods.items()},
    )


def _cheapest(pods: Mapping[str, int], kinds: Mapping[str, Kind], offered: Collection[Offer]) -> Offer | None:
    cpu = sum(kinds[kind].cpu_millicores * count for kind, count in pods.items())
    memory = sum(kinds[kind].memory_bytes * count for kind, count in pods.items())
    fitting = [
        offer
        for offer in offered
        if cpu <= offer.cpu_millicores
        and memory <= offer.memory_bytes
        and sum(pods.values()) <= offer.pods
        and all(kinds[kind].allows(offer.labels) for kind in pods)
    ]
    return min(fitting, key=lambda offer: (offer.price_per_hour, offer.name), default=None)
