"""Decides what to do with existing claims and nodes: release pods to them, or remove them. Pure.

kube-scheduler alone would spread the pods over the new nodes in its own way and leave some without room. So
pods wait behind a scheduling gate until their node is ready. Then they are nominated for it
(status.nominatedNodeName) and the gate is removed. kube-scheduler tries the nominated node first and reserves
its room against pods of the same or a lower priority, so the plan is followed as far as it holds.

Without the gate, kube-scheduler would try every pod on every node that appears. A pod that it tries and
cannot place loses its nomination (Kubernetes 1.36, preemption.go) and backs off for seconds.

A released pod is an ordinary pod. If the nominated node cannot take it, kube-scheduler may put it on any
other node, and Karpenter's pools rent for it. So a mistake here costs money, but no pod is left behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from cluster_autoscaler_hook.karpenter.demand import in_zones, unservable
from cluster_autoscaler_hook.karpenter.model import Claim, ClusterView, Market, WaitingPod
from cluster_autoscaler_hook.karpenter.pending_pods import HandOver
from cluster_autoscaler_hook.karpenter.plan import rooms_of, unplaced
from cluster_autoscaler_hook.karpenter.settings import Settings

__all__ = ["ClaimActions", "ClaimRemoval", "History", "PodRelease", "WaitHistory", "reconcile_claims"]

# A pod that still has no node after this many plans rented for it is not what we think it is.
_MAX_PLANS = 5
_SHORTEST_REQUEUE_S = 0.05


@dataclass(frozen=True, slots=True)
class WaitHistory:
    """How long a pod has been waiting, and how many plans rented a node for it."""

    since: float
    plans: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """What this replica has seen since it leads. Times are Unix times by its own clock."""

    empty_since: Mapping[str, float] = field(default_factory=dict)  # by claim: first seen without pods
    waits: Mapping[str, WaitHistory] = field(default_factory=dict)  # by pod uid


@dataclass(frozen=True, slots=True)
class PodRelease:
    """Nominate a pod for its node and remove its gate."""

    uid: str
    namespace: str
    pod: str
    node: str


@dataclass(frozen=True, slots=True)
class ClaimRemoval:
    claim: str
    reason: str
    unavailable_class: str = ""  # could not be rented: leave it out of the next plans


@dataclass(frozen=True, slots=True)
class ClaimActions:
    releases: tuple[PodRelease, ...] = ()
    hand_overs: tuple[HandOver, ...] = ()
    removals: tuple[ClaimRemoval, ...] = ()
    requeue_after_s: float | None = None  # None: only when something changes


def reconcile_claims(
    view: ClusterView, market: Market, settings: Settings, history: History, now: float
) -> ClaimActions:
    _, placed = unplaced(view.waiting, rooms_of(view, market.known, settings.pool))
    gated = [pod for pod in view.waiting if pod.gated and not pod.released]
    without_claim = [pod for pod in gated if pod.uid not in placed]
    needed = set(placed.values())
    removals, waits_s = [], []
    for claim in view.claims:
        if claim.deleting:
            continue
        removal = _removal_if_failed(claim, settings, now)
        if removal is None and claim.name not in needed:
            removal, wait_s = _removal_if_empty(view, claim, settings, history, now)
            if wait_s is not None:
                waits_s.append(wait_s)
        if removal is not None:
            removals.append(removal)
        if claim.failure:
            waits_s.append(_launch_time_left_s(claim, settings, now))
    return ClaimActions(
        tuple(_releases(view, gated, placed)),
        tuple(_hand_overs(without_claim, market, settings, history.waits, now)),
        tuple(removals),
        max(min(waits_s), _SHORTEST_REQUEUE_S) if waits_s else None,
    )


def _releases(
    view: ClusterView, gated: Collection[WaitingPod], placed: Mapping[str, str]
) -> Iterator[PodRelease]:
    """The pods whose claim has a node that takes pods now."""
    ready = {
        claim.name: node.name
        for claim in view.claims
        if (node := view.node_of(claim)) and node.ready and not node.deleting
    }
    for pod in gated:
        if node_name := ready.get(placed.get(pod.uid, "")):
            yield PodRelease(pod.uid, pod.namespace, pod.name, node_name)


def _hand_overs(
    pods: Collection[WaitingPod],
    market: Market,
    settings: Settings,
    waits: Mapping[str, WaitHistory],
    now: float,
) -> Iterator[HandOver]:
    """The pods that no claim is for and that will not get one."""
    kinds = Counter(pod.kind for pod in pods)
    unservable_kinds = {}
    if market.available is not None:
        offered = in_zones(market.available, settings.zones, kinds)
        unservable_kinds = {shortage.kind: shortage.reason for shortage in unservable(kinds, offered)}
    for pod in pods:
        wait = waits.get(pod.uid, WaitHistory(now))
        if pod.kind.id in unservable_kinds:
            reason = unservable_kinds[pod.kind.id]
        elif wait.plans >= _MAX_PLANS:
            reason = f"{wait.plans} plans rented for it, and no node took it"
        elif now - wait.since > settings.longest_wait_s:
            reason = f"it waited {now - wait.since:.0f} s, and no node is being prepared for it"
        else:
            continue
        yield HandOver(pod.uid, pod.namespace, pod.name, reason)


def _removal_if_empty(
    view: ClusterView, claim: Claim, settings: Settings, history: History, now: float
) -> tuple[ClaimRemoval | None, float | None]:
    """The removal, or the seconds until it is due; neither while the node is in use."""
    node = view.node_of(claim)
    if node is not None and (node.workload_pods or node.do_not_disrupt or node.deleting):
        return None, None
    empty_s = now - history.empty_since.get(claim.name, now)
    if empty_s < settings.empty_after_s:
        return None, settings.empty_after_s - empty_s
    return ClaimRemoval(claim.name, f"empty for {empty_s:.0f} s"), None


def _removal_if_failed(claim: Claim, settings: Settings, now: float) -> ClaimRemoval | None:
    if claim.launched or not claim.failure or _launch_time_left_s(claim, settings, now) > 0:
        return None
    return ClaimRemoval(claim.name, claim.failure, unavailable_class=claim.instance_class)


def _launch_time_left_s(claim: Claim, settings: Settings, now: float) -> float:
    return settings.launch_timeout_s - (now - claim.created)
