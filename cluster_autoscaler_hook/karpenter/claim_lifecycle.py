"""What to do with claims and nodes that exist: release pods to them, remove them. Pure; the controller acts.

kube-scheduler would spread the pods over the new nodes as it likes and leave some without room. So pods wait
behind a scheduling gate until their node is there; then they are nominated for it (status.nominatedNodeName)
and the gate is taken off. The scheduler tries the nominated node first and keeps its room from pods of the
same or a lower priority: the plan is followed as far as it holds, and the scheduler decides. Without the gate
every node that appears would have it try pods meant for others: one tried in vain loses its nomination
(Kubernetes 1.36, preemption.go) and backs off for seconds.

A pod that is released is the scheduler's: should the nominated node not take it, it may go anywhere, and
Karpenter's pools serve it as any other. So a wrong picture of ours costs money, never a pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cluster_autoscaler_hook.karpenter.demand import in_zones, unservable
from cluster_autoscaler_hook.karpenter.model import Claim, ClusterView, Offer, WaitingPod
from cluster_autoscaler_hook.karpenter.pending_pods import LetGo
from cluster_autoscaler_hook.karpenter.plan import rooms_of, unplaced
from cluster_autoscaler_hook.karpenter.settings import Settings

__all__ = ["Release", "Removal", "Steering", "Waited", "steer"]

# A pod that this many plans rented for, and that no node took, is not what we think it is.
_MOST_PLANS = 5


@dataclass(frozen=True, slots=True)
class Waited:
    """What a pod has been through: since when it waits, and how many plans rented for it."""

    since: float
    plans: int = 0


@dataclass(frozen=True, slots=True)
class Release:
    uid: str
    namespace: str
    pod: str
    node: str


@dataclass(frozen=True, slots=True)
class Removal:
    claim: str
    reason: str
    # The class could not be had: leave it out of the next plans.
    unavailable: str = ""


@dataclass(frozen=True, slots=True)
class Steering:
    releases: tuple[Release, ...] = ()
    let_go: tuple[LetGo, ...] = ()
    removals: tuple[Removal, ...] = ()
    # When to look again though nothing changed; None: only when something does.
    again_in_s: float | None = None


def steer(
    view: ClusterView,
    offered: Mapping[str, Offer],
    available: Collection[Offer] | None,
    settings: Settings,
    empty_since: Mapping[str, float],
    waited: Mapping[str, Waited],
    now: float,
) -> Steering:
    """`available`: the classes that can be had now; None if that is not known. `empty_since`: when each claim
    was first seen without a pod, by this replica's clock, as are `waited` and `now`."""
    _, placed = unplaced(view.waiting, rooms_of(view, offered, settings.pool))
    names = {
        claim.name: node.name
        for claim in view.claims
        if (node := view.node_of(claim)) and node.ready and not node.deleting
    }
    releases = tuple(
        Release(pod.uid, pod.namespace, pod.name, name)
        for pod in view.waiting
        if pod.gated and not pod.released
        if (name := names.get(placed.get(pod.uid, ""), ""))
    )
    homeless = [pod for pod in view.waiting if pod.gated and not pod.released and pod.uid not in placed]
    gone = _let_go(homeless, available, settings, waited, now)
    needed = set(placed.values())
    removals, waits = [], []
    for claim in view.claims:
        if claim.deleting or claim.name in needed:
            continue
        removal, wait_s = _removal(view, claim, settings, empty_since.get(claim.name), now)
        if removal:
            removals.append(removal)
        elif wait_s is not None:
            waits.append(wait_s)
    removals += [r for c in view.claims if c.name in needed and (r := _failed(c, settings, now))]
    waits += [_patience_s(c, settings, now) for c in view.claims if c.failure and not c.deleting]
    return Steering(releases, gone, tuple(removals), max(min(waits), 0.05) if waits else None)


def _let_go(
    homeless: Collection[WaitingPod],
    available: Collection[Offer] | None,
    settings: Settings,
    waited: Mapping[str, Waited],
    now: float,
) -> tuple[LetGo, ...]:
    """Pods that we shall not have a node for."""
    kinds = Counter(pod.kind for pod in homeless)
    hopeless = {}
    if available is not None:
        offered = in_zones(available, settings.zones, kinds)
        hopeless = {shortage.kind: shortage.reason for shortage in unservable(kinds, offered)}
    found = []
    for pod in homeless:
        been = waited.get(pod.uid, Waited(now))
        if pod.kind.id in hopeless:
            reason = hopeless[pod.kind.id]
        elif been.plans >= _MOST_PLANS:
            reason = f"{been.plans} plans rented for it, and no node took it"
        elif now - been.since > settings.longest_wait_s:
            reason = f"it waited {now - been.since:.0f} s, and no node is on its way"
        else:
            continue
        found.append(LetGo(pod.uid, pod.namespace, pod.name, (), reason))
    return tuple(found)


def _removal(
    view: ClusterView, claim: Claim, settings: Settings, since: float | None, now: float
) -> tuple[Removal | None, float | None]:
    if failed := _failed(claim, settings, now):
        return failed, None
    node = view.node_of(claim)
    if node is not None and (node.workload_pods or node.do_not_disrupt or node.deleting):
        return None, None
    waited_s = 0.0 if since is None else now - since
    if waited_s < settings.empty_after_s:
        return None, settings.empty_after_s - waited_s
    return Removal(claim.name, f"empty for {waited_s:.0f} s"), None


def _failed(claim: Claim, settings: Settings, now: float) -> Removal | None:
    if claim.deleting or claim.launched or not claim.failure or _patience_s(claim, settings, now) > 0:
        return None
    return Removal(claim.name, claim.failure, unavailable=claim.instance_class)


def _patience_s(claim: Claim, settings: Settings, now: float) -> float:
    return settings.launch_timeout_s - (now - claim.created)
