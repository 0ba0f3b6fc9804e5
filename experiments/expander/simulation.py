"""Simulate whole scale-ups with the caller's loop: our expander against its own, by the cost of the rented
nodes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from cluster_autoscaler_hook.catalogue import from_csv
from cluster_autoscaler_hook.expander.caller_model import Overhead, offer
from cluster_autoscaler_hook.expander.decision import PlanFailed, choose
from cluster_autoscaler_hook.expander.model import Offer, Price
from cluster_autoscaler_hook.expander.plan import Solve, as_problem
from cluster_autoscaler_hook.expander.prices import Prices
from cluster_autoscaler_hook.expander.scale_up_request import ScaleUpRequest
from cluster_autoscaler_hook.solver.deadline import Deadline
from cluster_autoscaler_hook.solver.model import Problem, Solution
from experiments.expander import baselines
from experiments.expander.baselines import Policy
from experiments.expander.mixes import Mix, Shape, mix
from experiments.expander.scale_up import Growth, scale_up
from experiments.intervals import geometric_mean, in_words, rounded

__all__ = ["OURS", "PLAN", "run", "simulate"]

OURS = "surgekit"
PLAN = "FCMA's plan, freely mixed"
# Nodes before the scale-up: the price expander prefers larger nodes in larger clusters.
_CLUSTER_NODES = 10
# The plan is the yardstick here, so it gets more time than in production.
_PLAN_S = 1.0
# Each policy plays a mix this often, with other scheduler queues and other ties; the mean counts.
_PLAYS = 5


def simulate(mix: Mix, solve: Solve, deadline_s: float) -> dict[str, float]:
    """Cost per hour of what each policy rents for the mix, and of FCMA's plan if `solve` finds one."""
    by_group = {group: Price(per_hour, "catalogue") for group, per_hour in mix.prices.items()}
    prices = Prices(by_group, "USD", 1.0, ())

    def play(make: Callable[[random.Random], Policy]) -> float:
        costs = []
        for number in range(_PLAYS):
            growths = scale_up(mix, make(random.Random(number)), random.Random(f"{mix.name}-{number}"))
            if sum(growth.pods for growth in growths) != sum(mix.pending):
                raise ValueError(f"mix {mix.name}: pods are left, so costs cannot be compared")
            costs.append(_cost(growths, mix.prices))
        return sum(costs) / _PLAYS

    return {
        OURS: play(lambda _: _ours(prices, deadline_s)),
        "price": play(lambda _: baselines.price(by_group, _CLUSTER_NODES)),
        "least-waste": play(baselines.least_waste),
        "most-pods": play(baselines.most_pods),
        "random": play(baselines.uniform),
        **_plan(mix, prices, solve, max(deadline_s, _PLAN_S)),
    }


def _ours(prices: Prices, deadline_s: float) -> Policy:
    def no_plan(_: Problem, __: float) -> Solution:
        raise PlanFailed("it would decide between equals only, and take the rest of the time")

    def policy(asked: Offer) -> str:
        # Without the DaemonSets: it must infer them from the counts, as in a real cluster.
        deadline = Deadline.after(deadline_s, time.process_time)  # as on a core of its own
        request = ScaleUpRequest(asked, prices, Overhead(), deadline)
        return choose(request, no_plan).action.groups[0]

    return policy


def _plan(mix: Mix, prices: Prices, solve: Solve, deadline_s: float) -> dict[str, float]:
    """A bound that no expander can reach: classes mixed for the same pods, with unlimited groups."""
    asked = offer(mix.templates, mix.kinds, mix.pending, {}, mix.overhead)
    problem = as_problem(ScaleUpRequest(asked, prices, mix.overhead, Deadline.after(deadline_s)))
    try:
        return {PLAN: solve(problem, deadline_s).cost_per_hour}
    except PlanFailed:
        return {}


def _cost(growths: tuple[Growth, ...], prices: Mapping[str, float]) -> float:
    return sum(growth.nodes * prices[growth.group] for growth in growths)


def run(
    seeds: Sequence[int], solve: Solve, deadline_s: float, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Figures for `surgekit bench expander`: our cost over each baseline's, in all and by shape."""
    catalogue = from_csv(Path(str(files("cluster_autoscaler_hook") / "data" / "aws_eu_west_1.csv")))
    played: list[dict[str, Any]] = []
    for shape in Shape:
        for seed in seeds:
            found = mix(shape, seed, catalogue)
            if not found.kinds:
                continue
            costs = simulate(found, solve, deadline_s)
            played.append({"mix": found.name, "shape": str(shape), "pods": sum(found.pending), **costs})
        ratios = _ratios([p for p in played if p["shape"] == shape])
        said = {name: in_words(ratio) for name, ratio in ratios.items() if isinstance(ratio, dict)}
        say(f"{shape}: {said}")
    figures: dict[str, Any] = {"mixes": len(played), "seeds": list(seeds)}
    figures |= _ratios(played)
    for name in _baselines(played):
        if name != PLAN:
            figures[f"mixes dearer than {name}"] = sum(p[OURS] > p[name] * (1 + 1e-9) for p in played)
    figures["by shape"] = {str(s): _ratios([p for p in played if p["shape"] == s]) for s in Shape}
    figures["played"] = played
    return figures


def _ratios(played: list[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means over the mixes: a large scale-up counts no more than a small one. And the worst mix."""
    found: dict[str, Any] = {}
    for name in _baselines(played):
        ratios = [p[OURS] / p[name] for p in played]
        found[f"cost over {name}"] = rounded(geometric_mean([[ratio] for ratio in ratios]))
        found[f"worst over {name}"] = round(max(ratios), 4)
    return found


def _baselines(played: list[dict[str, Any]]) -> list[str]:
    return [key for key in played[0] if key not in ("mix", "shape", "pods", OURS)]
