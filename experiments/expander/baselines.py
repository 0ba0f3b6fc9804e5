"""Cluster Autoscaler's own expanders, to compare with: least-waste, price, most-pods, random.

Formulas of expander/{waste,price,mostpods,random} in its source. `price` asks its cloud provider what nodes
and pods cost; here nodes cost what the catalogue says, and a pod's CPU and memory what that source's pricing
model for GCE charges (cloudprovider/gce/gce_price.go). Its groups all exist and have no GPU.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

from cluster_autoscaler_hook.expander.model import Offer, Option, Price, Template

__all__ = ["Policy", "least_waste", "most_pods", "price", "uniform"]

Policy = Callable[[Offer], str]

_GIB = 1 << 30
# gce_price.go: a core's and a GiB's hour.
_CPU_PER_HOUR, _GIB_PER_HOUR = 0.033174, 0.004446
# price.go: half a core and 500 MiB, to keep the ratio of small scale-ups steady.
_STABILIZING = 0.5 * _CPU_PER_HOUR + 500 / 1024 * _GIB_PER_HOUR
# preferred.go: nodes in the cluster up to -> CPUs of the node it would like.
_PREFERRED_CPUS = ((2, 1), (6, 2), (20, 4), (60, 8), (200, 16), (math.inf, 32))


def least_waste(rng: random.Random) -> Policy:
    """The option with the smallest share of CPU plus memory left over; random between equals."""

    def waste(offer: Offer, option: Option) -> float:
        template = offer.templates[option.group]
        cpu, memory = _requested(offer, option)
        return (1 - cpu / (template.capacity_cpu_millis * option.nodes)) + (
            1 - memory / (template.capacity_memory_bytes * option.nodes)
        )

    return _least(waste, rng)


def most_pods(rng: random.Random) -> Policy:
    return _least(lambda _, option: -option.pod_count, rng)


def uniform(rng: random.Random) -> Policy:
    return lambda offer: rng.choice(offer.options).group


def price(prices: Mapping[str, Price], cluster_nodes: int) -> Policy:
    """Cost of nodes over cost of pods, times the distance of the node from its preferred size."""
    grown = 0

    def score(offer: Offer, option: Option) -> float:
        cpu, memory = _requested(offer, option)
        pods = cpu / 1000 * _CPU_PER_HOUR + memory / _GIB * _GIB_PER_HOUR
        nodes = option.nodes * prices[option.group].per_hour
        ratio = (nodes + _STABILIZING) / (pods + _STABILIZING)
        unfit = _unfitness(offer.templates[option.group], cluster_nodes + grown)
        suppressed = (unfit - 1.0) * (1.0 - math.tanh((option.nodes - 1) / 15.0)) + 1.0
        return suppressed * ratio

    def choose(offer: Offer) -> str:
        nonlocal grown
        best = min(offer.options, key=lambda option: score(offer, option))
        grown += best.nodes
        return best.group

    return choose


def _unfitness(template: Template, cluster_nodes: int) -> float:
    preferred = next(cpus for most, cpus in _PREFERRED_CPUS if cluster_nodes <= most)
    ratio = template.capacity_cpu_millis / 1000 / preferred
    return max(ratio, 1 / ratio)


def _requested(offer: Offer, option: Option) -> tuple[int, int]:
    """Millicores and bytes of the pods that the option helps."""
    demands = [(offer.kinds[kind].demand, count) for kind, count in option.pods.items()]
    return (
        sum(demand.cpu_millis * count for demand, count in demands),
        sum(demand.memory_bytes * count for demand, count in demands),
    )


def _least(score: Callable[[Offer, Option], float], rng: random.Random) -> Policy:
    def choose(offer: Offer) -> str:
        scores = [score(offer, option) for option in offer.options]
        least = min(scores)
        equal = [option for option, found in zip(offer.options, scores, strict=True) if found == least]
        return rng.choice(equal).group

    return choose
