"""The lowest cost of the pods that an option leaves, given how the caller continues.

The caller lets one group take every pod it can help, so a sequence of such steps follows each choice. Groups
that leave the same pods differ only in price, so there are few sequences: in each state the cheapest group
for each set of remaining pods. All are tried, with memoization and pruned by lower bounds. So the cost is
exact if the model of the caller is. Only among groups that are about to reach their maximum size is the most
promising one followed alone.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cluster_autoscaler_hook.expander.caller_model import Overhead, estimate
from cluster_autoscaler_hook.expander.model import Kind, Option, Template
from cluster_autoscaler_hook.expander.scale_up_request import ScaleUpRequest

__all__ = ["Lookahead", "Step", "infer_overhead"]

_Counts = tuple[int, ...]
# DaemonSets, the most usual first: 200m and 200 MiB. EKS has kube-proxy (100m), the network agent (50m) and a
# storage driver (30m, 120 MiB); a GKE node also has agents for logs (105m, 230 MiB), metadata (100m, 100 MiB)
# and metrics (github.com/cryptnono/cryptnono/issues/34). Then others, with about a MiB for each millicore or
# hardly any memory.
_OVERHEADS = [
    Overhead(millis, mib << 20, 4 if millis else 0)
    for millis in (200, 100, 300, 50, 500, 0, 1000)
    for mib in dict.fromkeys((millis, 0))
]
# The overhead is inferred from the options with the most nodes, which show it best.
_OPTIONS_COMPARED = 8
# Rounding must not make a bound larger than the true cost.
_SLACK = 1 - 1e-9


def infer_overhead(request: ScaleUpRequest) -> Overhead:
    """The overhead of DaemonSets that explains the caller's node counts: the configured one if that does, and
    the most usual one if none is configured.

    The caller subtracts DaemonSet pods when it packs, but the node it sends does not show them.
    """
    offer, configured = request.offer, request.overhead
    shown = sorted((o for o in offer.options if o.group in offer.templates), key=lambda o: -o.nodes)

    def disagreements(overhead: Overhead) -> float:
        found = 0
        for option in shown[:_OPTIONS_COMPARED]:
            if request.deadline.reached():
                return math.inf
            template = overhead.off(offer.templates[option.group])
            found += estimate(template, offer.kinds, option.pods).nodes != option.nodes
        return found

    best, fewest = configured, math.inf
    for tried in (*([configured] if configured != Overhead() else []), *_OVERHEADS):
        at_least = Overhead(
            max(tried.cpu_millis, configured.cpu_millis),
            max(tried.memory_bytes, configured.memory_bytes),
            max(tried.pods, configured.pods),
        )
        if (found := disagreements(at_least)) < fewest:
            best, fewest = at_least, found
        if fewest == 0 or request.deadline.reached():
            break
    return best


@dataclass(frozen=True, slots=True)
class Step:
    """A group and the number of nodes that the caller would add to it."""

    group: str
    nodes: int


@dataclass(frozen=True, slots=True)
class _Way:
    """The cost of a sequence of steps, and its first step."""

    cost: float
    first: Step | None = None

    def __lt__(self, other: _Way) -> bool:
        return self.cost < other.cost


_NOTHING = _Way(0.0)


class Lookahead:
    def __init__(self, request: ScaleUpRequest) -> None:
        offer, options = request.offer, request.priced_options
        self._kinds, self._pending, self._deadline = offer.kinds, offer.pending, request.deadline
        needs = np.array(
            [(k.demand.cpu_millis, k.demand.memory_bytes, 1) for k in offer.kinds], dtype=np.float64
        )
        self._groups = [
            _Group(
                request.overhead.off(offer.templates[option.group]),
                request.prices.by_group[option.group].per_hour,
                offer.kinds,
                needs,
                option.nodes,
            )
            for option in options
        ]
        by_name = {option.group: option for option in options}
        for group in self._groups:
            # A group that leaves pods it could help has reached its maximum size: these nodes and no more.
            group.limited = group.helps(self.left(by_name[group.name]))
        # For each kind, the lowest price of its share of a node, by CPU, memory and number of pods.
        shares = np.array([group.shares for group in self._groups]).reshape(-1, len(offer.kinds), 3)
        self._least = np.where(np.isfinite(least := shares.min(axis=0, initial=math.inf)), least, 0.0)
        self._known: dict[tuple[_Counts, frozenset[str]], _Way] = {}
        # Whether every sequence was tried; if not, some costs are lower bounds.
        self.complete = True

    def left(self, option: Option) -> _Counts:
        return tuple(max(0, count - option.pods.get(kind, 0)) for kind, count in enumerate(self._pending))

    def after(self, option: Option) -> float:
        """Cost per hour of the pods that `option` leaves. Pods that no priced group helps cost nothing."""
        return self._to_go(self.left(option), self.used(option.group)).cost

    def used(self, group: str, before: frozenset[str] = frozenset()) -> frozenset[str]:
        """The groups of limited size in use; includes this group if its size is limited."""
        return before | {g.name for g in self._groups if g.limited and g.name == group}

    def next_step(self, left: _Counts, used: frozenset[str]) -> Step | None:
        """The best next step for the remaining pods; None if no priced group helps."""
        return self._to_go(left, used).first

    def bound(self, left: _Counts) -> float:
        """A lower bound of these pods' cost: their CPU, memory or number alone, where it is cheapest."""
        return float((np.array(left) @ self._least).max()) * _SLACK

    def _to_go(self, left: _Counts, used: frozenset[str]) -> _Way:
        if not any(left):
            return _NOTHING
        if (known := self._known.get((left, used))) is not None:
            return known
        best = self._with_unlimited(left, used)
        if self._deadline.reached():
            self.complete = False
            return best
        # Which limited groups to use is a knapsack; only the most promising one is followed.
        promising = min(self._limited_steps(left, used), default=None)
        if promising is not None and promising[0] < best.cost:
            _, cost, then, name, nodes = promising
            best = min(best, _Way(cost + self._to_go(then, used | {name}).cost, Step(name, nodes)))
        # No group helps: the caller says that these pods fit where our model says that they do not.
        self._known[left, used] = best if math.isfinite(best.cost) else _Way(self.bound(left))
        return self._known[left, used]

    def _with_unlimited(self, left: _Counts, used: frozenset[str]) -> _Way:
        """The best next step with a group of unlimited size; exact if there are no limited groups."""
        steps: dict[_Counts, list[tuple[float, int]]] = defaultdict(list)
        for index, group in enumerate(self._groups):
            if not group.limited and group.helps(left):
                steps[group.then(left)].append((group.bound(left), index))
        ordered = sorted(
            (min(groups)[0] + self.bound(then), then, sorted(groups)) for then, groups in steps.items()
        )
        best = _Way(math.inf)
        for at_least, then, groups in ordered:
            if at_least >= best.cost:
                break
            if self._deadline.reached():
                self.complete = False
                return min(best, _Way(at_least))
            cheapest = self._cheapest(left, groups)
            best = min(best, _Way(cheapest.cost + self._to_go(then, used).cost, cheapest.first))
        return best

    def _cheapest(self, left: _Counts, groups: Sequence[tuple[float, int]]) -> _Way:
        """The lowest price of the pods that all these groups can take."""
        best = _Way(math.inf)
        for at_least, index in groups:
            if at_least >= best.cost or self._deadline.reached():
                break
            group = self._groups[index]
            nodes = estimate(group.template, self._kinds, group.wanted(left)).nodes
            best = min(best, _Way(nodes * group.price, Step(group.name, nodes)))
        return best

    def _limited_steps(
        self, left: _Counts, used: frozenset[str]
    ) -> Iterator[tuple[float, float, _Counts, str, int]]:
        """(lower bound, cost, pods left, name, nodes) for each group of limited size that is not in use."""
        for group in self._groups:
            if not group.limited or group.name in used or not group.helps(left):
                continue
            if self._deadline.reached():
                self.complete = False
                return
            found = estimate(group.template, self._kinds, group.wanted(left), group.nodes)
            then = tuple(count - found.placed.get(kind, 0) for kind, count in enumerate(left))
            cost = found.nodes * group.price
            yield cost + self.bound(then), cost, then, group.name, found.nodes


class _Group:
    def __init__(
        self, template: Template, price: float, kinds: Sequence[Kind], needs: NDArray[np.float64], nodes: int
    ) -> None:
        self.name, self.template, self.price, self.nodes = template.group, template, price, nodes
        self.limited = False
        self.takes = np.array([template.group in kind.groups and _fits(kind, template) for kind in kinds])
        room = np.array([template.cpu_millis, template.memory_bytes, template.max_pods], dtype=np.float64)
        # The price of the share of a node that a pod of each kind takes; infinite where it cannot run.
        shares = np.divide(needs * price, room, out=np.zeros_like(needs), where=room > 0)
        self.shares = np.where(self.takes[:, None], shares, math.inf)
        self._taken = np.where(self.takes[:, None], shares, 0.0)

    def helps(self, left: _Counts) -> bool:
        return bool(np.any(self.takes & (np.array(left) > 0)))

    def then(self, left: _Counts) -> _Counts:
        """The pods that are left when the group has taken all it can."""
        return tuple(np.where(self.takes, 0, left).tolist())

    def wanted(self, left: _Counts) -> dict[int, int]:
        return {kind: count for kind, count in enumerate(left) if count and self.takes[kind]}

    def bound(self, left: _Counts) -> float:
        """The price of whole nodes, as many as CPU, memory or number of pods alone require."""
        nodes = float((np.array(left) @ self._taken).max()) / self.price
        return math.ceil(nodes * _SLACK) * self.price


def _fits(kind: Kind, template: Template) -> bool:
    demand = kind.demand
    return (
        demand.cpu_millis <= template.cpu_millis
        and demand.memory_bytes <= template.memory_bytes
        and template.max_pods > 0
        and all(template.others.get(name, 0) >= amount for name, amount in demand.others)
    )
