"""Chooses sizes and nodes together: which sizes of ComboFuncs, for which instance classes? Pure.

FCMA rents for pods whose sizes are given. A ComboFunc needs a concurrency, in any mix of its sizes, and which
mix packs cheapest depends on the classes for sale and on the other pods. The joint problem:

    minimise   sum_k p_k x_k                                         the nodes' price
    such that  sum_k (pods of kind a in k) x_k >= w_a                for each kind of fixed pods
               sum_k sum_p Q_p (pods of size p in k) x_k >= Q'_f     for each function f

over all node patterns k (a class and what is on it), with whole x_k. A linear program over patterns of at
most two kinds of pods says how much each size should serve if nodes could be divided. From that, and from
what a pod of each size costs alone, come a few candidates of whole pods, and FCMA's solver prices each. The
sizes as asked are the first candidate, so the choice is never dearer than FCMA alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cluster_autoscaler_hook.karpenter.model import Kind, Offer
from cluster_autoscaler_hook.solver.linear_program import LinearProgram
from cluster_model.cover import cheapest_cover

__all__ = ["MOST_DEMANDS", "Demand", "SizeChoice", "Sizes", "choose_sizes"]

# More demands than this are not chosen for at once.
MOST_DEMANDS = 8
# How many candidates FCMA prices, with the sizes as asked.
_MOST_TRIALS = 8
# Bounds of the linear program: kinds of pods, and classes for each: those with the lowest price for a pod.
_MOST_KINDS, _CLASSES = 24, 6
_PROGRAM_S = 0.5  # it takes milliseconds

Sizes = Mapping[str, int]  # pods by name of size


@dataclass(frozen=True)
class Demand:
    """A concurrency that a function needs, in any of its sizes."""

    id: str
    need: int
    asked: Sizes  # the sizes that it asks for now
    kinds: Mapping[str, Kind]  # by name of size
    concurrency: Mapping[str, int]
    most_pods: int = 1000

    def accepts(self, sizes: Sizes) -> bool:
        """Whether the function would follow: not too many pods, and not far more than it needs."""
        return sum(sizes.values()) <= self.most_pods and self._served(sizes) <= 2 * self._served(self.asked)

    def _served(self, sizes: Sizes) -> int:
        return sum(self.concurrency[name] * count for name, count in sizes.items())


@dataclass(frozen=True)
class SizeChoice:
    sizes: Mapping[str, Sizes]  # by demand's id; only those that differ from what is asked
    cost_per_hour: float  # of nodes for these and all fixed pods
    asked_cost_per_hour: float  # of nodes for the sizes as asked
    reasons: tuple[str, ...] = ()


class _Item(NamedTuple):
    """A kind of pod in the linear program: what it serves of its row."""

    kind: Kind
    row: int
    served: float
    size: str  # empty: a fixed kind


class _Pattern(NamedTuple):
    price: float
    counts: tuple[tuple[int, int], ...]  # (item, pods)


@dataclass
class _Trials:
    """The candidates priced so far."""

    price: Callable[[Counter[Kind]], float]
    fixed: Mapping[Kind, int]
    demands: Sequence[Demand]
    priced: dict[tuple[tuple[tuple[str, int], ...], ...], float] = field(default_factory=dict)
    best: tuple[Sizes, ...] = ()
    cost: float = math.inf

    def take(self, sizes: Sequence[Sizes]) -> None:
        key = tuple(tuple(sorted((+Counter(one)).items())) for one in sizes)
        followed = not self.best or all(d.accepts(one) for d, one in zip(self.demands, sizes, strict=True))
        if key in self.priced or len(self.priced) >= _MOST_TRIALS or not followed:
            return
        counts = Counter(self.fixed)
        for demand, one in zip(self.demands, sizes, strict=True):
            for name, count in one.items():
                counts[demand.kinds[name]] += count
        cost = self.priced[key] = self.price(+counts)
        if cost < self.cost * (1 - 1e-9) or not self.best:
            self.best, self.cost = tuple(sizes), cost


def choose_sizes(
    fixed: Mapping[Kind, int],
    demands: Sequence[Demand],
    offered: Collection[Offer],
    price: Callable[[Counter[Kind]], float],
) -> SizeChoice:
    """`price`: what nodes for so many pods of each kind cost; infinite if no class can hold one of them."""
    trials = _Trials(price, fixed, demands)
    trials.take([demand.asked for demand in demands])
    asked_cost = trials.cost
    alone = [_costs_alone(demand, offered) for demand in demands]
    if all(alone):
        trials.take([_cover(d, costs, d.need) for d, costs in zip(demands, alone, strict=True)])
        served = _served(fixed, demands, alone, offered)
        trials.take([_rounded(d, s, c) for d, s, c in zip(demands, served, alone, strict=True)])
        for candidate in _in_one_size(demands, alone, trials):
            trials.take(candidate)
    differing = {
        demand.id: dict(sorted((+Counter(sizes)).items()))
        for demand, sizes in zip(demands, trials.best, strict=True)
        if +Counter(sizes) != +Counter(demand.asked)
    }
    said = f"{trials.cost:.5g} an hour, {asked_cost:.5g} as asked, {len(trials.priced)} choices priced"
    return SizeChoice(differing, trials.cost, asked_cost, (said,))


def _costs_alone(demand: Demand, offered: Collection[Offer]) -> dict[str, float]:
    """By size: the share of a node's price that a pod takes, on the class that suits it best."""
    shares = {
        name: min((o.price_per_hour / n for o in offered if (n := _fit(kind, o))), default=math.inf)
        for name, kind in demand.kinds.items()
    }
    return {name: share for name, share in shares.items() if share < math.inf}


def _in_one_size(
    demands: Sequence[Demand], alone: Sequence[Mapping[str, float]], trials: _Trials
) -> Iterator[list[Sizes]]:
    """One function in one size, cheap ones first, the others as in the best so far. Whole nodes may suit one
    size much better than divided nodes do."""
    ranked = sorted(
        (cost / demand.concurrency[name], i, name)
        for i, demand in enumerate(demands)
        for name, cost in alone[i].items()
    )
    for _, i, name in ranked:
        best = list(trials.best)
        best[i] = {name: math.ceil(demands[i].need / demands[i].concurrency[name])}
        yield best


def _cover(demand: Demand, alone: Mapping[str, float], need: int) -> Sizes:
    return cheapest_cover({name: (demand.concurrency[name], cost) for name, cost in alone.items()}, need)


def _rounded(demand: Demand, served: Mapping[str, float], alone: Mapping[str, float]) -> Sizes:
    """Whole pods of the sizes that serve most, and the cheapest cover for the rest."""
    sizes: Counter[str] = Counter()
    left = demand.need
    for name in sorted(served, key=lambda name: (-served[name], name)):
        each = demand.concurrency[name]
        sizes[name] = min(int(served[name] / each + 1e-6), left // each)
        left -= sizes[name] * each
    return sizes + Counter(_cover(demand, alone, left))


def _served(
    fixed: Mapping[Kind, int],
    demands: Sequence[Demand],
    alone: Sequence[Mapping[str, float]],
    offered: Collection[Offer],
) -> list[dict[str, float]]:
    """By demand and size: the concurrency that it serves where nodes can be divided."""
    each = max(2, _MOST_KINDS * 3 // 4 // len(demands))
    items = []
    for row, demand in enumerate(demands):
        cheap = sorted(alone[row], key=lambda name: (alone[row][name] / demand.concurrency[name], name))
        items += [_Item(demand.kinds[n], row, demand.concurrency[n] / demand.need, n) for n in cheap[:each]]
    many = sorted(fixed, key=lambda kind: (-fixed[kind], kind.id))
    for row, kind in enumerate(many[: max(_MOST_KINDS - len(items), 0)], len(demands)):
        if any(_fit(kind, offer) for offer in offered):
            items.append(_Item(kind, row, 1 / fixed[kind], ""))
    rows = sorted({item.row for item in items})
    patterns = _patterns([item.kind for item in items], offered)
    program = LinearProgram([1.0] * len(rows), [math.inf] * len(rows))
    for pattern in patterns:
        shares: dict[int, float] = {}
        for item, count in pattern.counts:
            row = rows.index(items[item].row)
            shares[row] = shares.get(row, 0.0) + count * items[item].served
        program.add(pattern.price, list(shares), list(shares.values()))
    values = program.solve(_PROGRAM_S).values
    served: list[dict[str, float]] = [{} for _ in demands]
    for pattern, number in zip(patterns, values if values is not None else (), strict=values is not None):
        for item, count in pattern.counts:
            one = items[item]
            if one.size:
                of = served[one.row]
                of[one.size] = of.get(one.size, 0.0) + count * one.served * float(number)
    return [{n: s * d.need for n, s in of.items()} for d, of in zip(demands, served, strict=True)]


def _patterns(kinds: Sequence[Kind], offered: Collection[Offer]) -> list[_Pattern]:
    """Nodes with one kind of pods, and then another in the room left."""
    found: dict[tuple[str, tuple[tuple[int, int], ...]], _Pattern] = {}
    for i, kind in enumerate(kinds):
        suited = sorted(
            (offer.price_per_hour / most, offer.name, most, offer)
            for offer in offered
            if (most := _fit(kind, offer))
        )
        for _, name, most, offer in suited[:_CLASSES]:
            for pods in {most, math.ceil(most / 2)}:
                found[name, ((i, pods),)] = _Pattern(offer.price_per_hour, ((i, pods),))
                left = (
                    offer.cpu_millicores - pods * kind.cpu_millicores,
                    offer.memory_bytes - pods * kind.memory_bytes,
                    offer.pods - pods,
                )
                for j, other in enumerate(kinds):
                    if j != i and (more := _fit(other, offer, left)):
                        counts = ((i, pods), (j, more))
                        found[name, counts] = _Pattern(offer.price_per_hour, counts)
    return list(found.values())


def _fit(kind: Kind, offer: Offer, left: tuple[int, int, int] | None = None) -> int:
    """Pods of this kind that fit a node, or what is left of it."""
    if not kind.allows(offer.labels):
        return 0
    cpu, memory, pods = left or (offer.cpu_millicores, offer.memory_bytes, offer.pods)
    most = min(
        pods,
        cpu // kind.cpu_millicores if kind.cpu_millicores else pods,
        memory // kind.memory_bytes if kind.memory_bytes else pods,
    )
    return min(most, 1) if kind.exclusive else most
