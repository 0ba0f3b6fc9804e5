"""Pods for what fits nowhere, so that a node autoscaler brings nodes. Pure; time is an argument.

A plan that is short leaves concurrency that no node has room for. For that the function gets pods without a
planned node and without our gate: ordinary Pending pods, which Cluster Autoscaler and Karpenter see. When a
node comes, kube-scheduler binds them, and the next plan counts them like any other.

They never bring more than is short: there are as many as the shortage needs, at most `max_waiting_pods`. They
go when the target falls, when room appears elsewhere, or when no node came for `node_wait_s`. Then other
sizes are tried, and after all were tried in vain, nothing for as long, doubling.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from combofunc.planner.model import Plan, Size, Weights
from combofunc.planner.new_nodes import sizes_for_new_nodes
from combofunc.pods.actions import Action, Create, Delete
from combofunc.pods.assignment import NewPod, new_name
from combofunc.pods.pod import FunctionPod
from combofunc.pods.resources import includes, of_size
from combofunc.pods.size_offer import size_offer
from combofunc.reconcile.planner_input import new_pod_body, pod_shape
from combofunc.reconcile.spec import ComboFunc
from combofunc.settings import Settings
from surgekit.process.modes import Mode

__all__ = ["NO_CHOICES", "ChosenSizes", "DemandCase", "DemandStep", "NodeDemand", "demand_nodes"]

# A shortage is often over at once: idle containers of other functions are released for it.
_SHORT_FOR_S = 3.0
_LONGEST_PAUSE_S = 3600.0
# If the pods that wait serve this many times what new ones would, they make way: the target fell meanwhile.
_TOO_MUCH = 2

# Batch -> number of pods by name of size, as who rents nodes chose.
ChosenSizes = Mapping[str, Mapping[str, int]]
NO_CHOICES: ChosenSizes = {}


@dataclass(frozen=True, slots=True)
class NodeDemand:
    """What a function remembers about its pods that wait for nodes. Times are Unix times."""

    short_since_s: float | None = None
    not_before_s: float = 0.0  # no further pods until then
    in_vain: int = 0  # how often all sizes waited in vain, in a row
    avoided: frozenset[str] = frozenset()  # sizes that waited in vain
    failure: str = ""  # what the API server said to the last one


@dataclass(frozen=True, slots=True)
class DemandCase:
    function: ComboFunc
    waiting: Sequence[FunctionPod]  # pods without a node and without a planned one
    pod_names: Sequence[str]  # of all its pods
    plan: Plan
    rolling: bool  # pods of an earlier template still hold room
    chosen: ChosenSizes
    settings: Settings
    now_s: float


@dataclass(frozen=True, slots=True)
class DemandStep:
    demand: NodeDemand
    actions: tuple[Action, ...] = ()
    waiting: int = 0  # pods that wait for nodes afterwards
    said: str = ""  # in words; empty if nothing is short
    again_in_s: float = math.inf  # when time alone changes the step


def demand_nodes(demand: NodeDemand, case: DemandCase) -> DemandStep:
    """Which pods shall wait for nodes."""
    shadow = case.function.mode is Mode.SHADOW or case.settings.node_demand is Mode.SHADOW
    off = case.settings.node_demand is Mode.OFF
    short = 0 if case.rolling or off else case.plan.shortage
    if not short:
        return DemandStep(NodeDemand(), _deleted(case.waiting, "nothing is short any more"))
    since_s = case.now_s if demand.short_since_s is None else demand.short_since_s
    demand = replace(demand, short_since_s=since_s)
    if shadow:
        wanted = _described(Counter(size.name for size in _wanted(case, demand, Counter(), short)))
        said = f"with node_demand: enforce, pods would wait for nodes: {wanted}"
        return DemandStep(demand, _deleted(case.waiting, "nothing is created in shadow mode"), said=said)
    demand, late = _given_up(demand, case)
    fitting = [pod for pod in case.waiting if pod not in late and _is_offered(pod, case.function)]
    kept = _needed(fitting, case, demand, short)
    chosen = _as_chosen(kept, case)
    kept = [pod for pod in kept if pod.batch not in chosen]
    new = [new for pods in chosen.values() for new in pods if new.name not in case.pod_names]
    covered = sum(pod.concurrency for pod in kept) + sum(pod.size.concurrency for pod in new)
    bodies = [_body(case, pod) for pod in new]
    if covered < short and not chosen and case.now_s >= max(since_s + _SHORT_FOR_S, demand.not_before_s):
        there = Counter(pod.size for pod in kept)
        cover = _wanted(case, demand, there, short - covered)[: max(_most(case) - len(kept), 0)]
        bodies += _batch(case, cover, short - covered)
    going = [pod for pod in case.waiting if pod not in kept]
    actions = (*_deleted(going, "other sizes, no need or no node for it"), *bodies)
    waiting = len(kept) + len(bodies)
    return DemandStep(demand, actions, waiting, _said(demand, waiting, case), _again_in_s(demand, kept, case))


def _most(case: DemandCase) -> int:
    return case.settings.max_waiting_pods


def _deleted(pods: Sequence[FunctionPod], why: str) -> tuple[Action, ...]:
    return tuple(Delete(pod.name, pod.uid, why) for pod in pods)


def _given_up(demand: NodeDemand, case: DemandCase) -> tuple[NodeDemand, list[FunctionPod]]:
    """The pods that waited too long, and when the next may come: at once if other sizes are left to try."""
    wait_s, now_s = case.settings.node_wait_s, case.now_s
    late = [pod for pod in case.waiting if now_s - pod.created_s > wait_s]
    if not late:
        return demand, []
    avoided = demand.avoided | {pod.size for pod in late}
    if case.function.replicas is None and avoided < {size.name for size in case.function.sizes}:
        return replace(demand, avoided=avoided), late
    pause_s = min(wait_s * 2.0 ** min(demand.in_vain, 16), _LONGEST_PAUSE_S)
    again = replace(demand, avoided=frozenset(), in_vain=demand.in_vain + 1, not_before_s=now_s + pause_s)
    return again, late


def _is_offered(pod: FunctionPod, function: ComboFunc) -> bool:
    """Whether it is as a new pod of its size would be."""
    size = next((size for size in function.sizes if size.name == pod.size), None)
    return bool(
        size
        and pod.template == function.template_hash
        and pod.concurrency == size.concurrency
        and includes(pod.asked, of_size(size, function.container))
    )


def _needed(
    pods: Sequence[FunctionPod], case: DemandCase, demand: NodeDemand, short: int
) -> list[FunctionPod]:
    """The pods that the shortage still needs, older ones first."""
    kept = sorted(pods, key=lambda pod: (pod.created_s, pod.name))[: _most(case)]
    if case.function.replicas is not None:
        missing = Counter(case.function.replicas)
        missing.subtract(case.plan.replicas)
        needed = []
        for pod in kept:
            missing[pod.size] -= 1
            needed += [pod] if missing[pod.size] >= 0 else []
        return needed
    total = sum(pod.concurrency for pod in kept)
    for pod in reversed(kept.copy()):
        if total - pod.concurrency >= short:
            total -= pod.concurrency
            kept.remove(pod)
    least = sum(size.concurrency for size in _cover(case, demand.avoided, short))
    # Sizes without an offer were chosen by those who rent the nodes: they stay.
    own = sum(pod.concurrency for pod in kept if pod.batch)
    return [pod for pod in kept if not pod.batch] if own > _TOO_MUCH * least else kept


def _cover(case: DemandCase, avoided: frozenset[str], need: int) -> list[Size]:
    """As whole pods."""
    function, settings = case.function, case.settings
    weight = settings.price_weight if function.price_weight is None else function.price_weight
    sizes = [size for size in pod_shape(function).sizes if size.name not in avoided]
    weights = Weights(weight, settings.price_swing)
    return sizes_for_new_nodes(sizes, need, settings.default_tau_create_s, weights)


def _wanted(case: DemandCase, demand: NodeDemand, there: Counter[str], need: int) -> list[Size]:
    """Sizes for a concurrency of `need`, beside the pods that are `there`, by name of size."""
    function = case.function
    if function.replicas is not None:
        missing = Counter(function.replicas)
        missing.subtract(case.plan.replicas)
        missing.subtract(there)
        return [size for size in function.sizes for _ in range(missing[size.name])]
    offered = {size.name: size for size in function.sizes}
    return [offered[size.name] for size in _cover(case, demand.avoided, need)]


def _batch(case: DemandCase, sizes: Sequence[Size], need: int) -> list[Action]:
    """New pods that are offered together."""
    function, names = case.function, sorted(case.pod_names)
    batch = new_name("", function.uid, function.template_hash, *names, str(need)).lstrip("-")
    offer = ""
    if function.replicas is None:
        offered = sum(size.concurrency for size in sizes)
        offer = size_offer(batch, min(need, offered), pod_shape(function).sizes, _most(case))
    pods = [
        NewPod(new_name(function.name, batch, size.name, str(i)), "", size) for i, size in enumerate(sizes)
    ]
    return [Create(pod.name, new_pod_body(function, pod, offer)) for pod in pods]


def _body(case: DemandCase, pod: NewPod) -> Action:
    """Without an offer: its size was chosen."""
    return Create(pod.name, new_pod_body(case.function, pod))


def _as_chosen(kept: Sequence[FunctionPod], case: DemandCase) -> dict[str, list[NewPod]]:
    """By batch, the pods that take the place of its pods. A choice that does not do is not followed."""
    function, found = case.function, dict[str, list[NewPod]]()
    offered = {size.name: size for size in function.sizes}
    for batch in sorted({pod.batch for pod in kept} & case.chosen.keys()):
        sizes = case.chosen[batch]
        there = [pod for pod in kept if pod.batch == batch]
        known = sizes.keys() <= offered.keys() and sum(sizes.values()) <= _most(case)
        if not known or function.replicas is not None:
            continue
        pods = [
            NewPod(new_name(function.name, batch, "chosen", name, str(i)), "", offered[name])
            for name, count in sorted(sizes.items())
            for i in range(count)
        ]
        if sum(pod.size.concurrency for pod in pods) <= 2 * sum(pod.concurrency for pod in there):
            found[batch] = pods
    return found


def _described(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in sorted(sizes.items())) or "none"


def _said(demand: NodeDemand, waiting: int, case: DemandCase) -> str:
    if waiting:
        return f"{waiting} pods wait for nodes that an autoscaler brings"
    if demand.failure:
        return f"no pod can wait for a node: {demand.failure}"
    if demand.in_vain:
        return f"no node came for its pods within {case.settings.node_wait_s:g} s; they are tried again later"
    return ""


def _again_in_s(demand: NodeDemand, kept: Sequence[FunctionPod], case: DemandCase) -> float:
    waits = [pod.created_s + case.settings.node_wait_s - case.now_s + 1.0 for pod in kept]
    due_s = max((demand.short_since_s or 0.0) + _SHORT_FOR_S, demand.not_before_s) - case.now_s
    return max(min([*waits, *([due_s] if due_s > 0 else [])], default=math.inf), 0.05)
