"""What do nodes for a shortage cost, with sizes and classes chosen together? `surgekit bench nodes --joint`.

Simulated, on the shipped price table. ComboFunc alone chooses sizes, and a stock autoscaler rents for them:
the cheapest of Karpenter's first choice and two first fits, as if consolidation found it. FCMA alone rents
for one size of each function. Each baseline has its best setting, found on seeds of its own. Solves have a
deadline in CPU time, as on a core of their own.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cluster_autoscaler_hook.karpenter.demand import offers, problem_of, unservable
from cluster_autoscaler_hook.karpenter.first_choice import first_choice
from cluster_autoscaler_hook.karpenter.model import Kind, Offer
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.karpenter.size_choice import Demand, Sizes, choose_sizes
from cluster_autoscaler_hook.karpenter.strict_catalogue import SHIPPED, StrictCatalogue
from cluster_autoscaler_hook.solver import first_fit
from cluster_autoscaler_hook.solver.best import search
from cluster_autoscaler_hook.solver.deadline import Deadline
from cluster_autoscaler_hook.solver.model import InfeasibleProblem
from cluster_autoscaler_hook.solver.verifier import verify
from combofunc.planner.model import Weights
from combofunc.planner.new_nodes import sizes_for_new_nodes
from experiments.intervals import geometric_mean, rounded
from experiments.nodes.joint_problems import Function, Shortage, draw

__all__ = ["FUNCTIONS", "run"]

FUNCTIONS = (1, 4)
JOINT, COMBOFUNC, FCMA, IN_TURN = "joint", "ComboFunc alone", "FCMA alone", "ComboFunc, then FCMA"
BEST_SINGLE = "FCMA, best single sizes in hindsight"
_WEIGHTS = (0.0, 0.25, 1.0, 100.0)
_SWEEP_SEEDS = 10
_TAU_CREATE_S = 1.0  # ComboFunc's default
_SOLVE_S = Settings().solve_deadline_s

Pricing = Callable[[Counter[Kind]], float]


def _smallest(function: Function) -> str:
    return min(function.sizes, key=lambda size: size.concurrency).name


def _largest(function: Function) -> str:
    return max(function.sizes, key=lambda size: size.concurrency).name


def _leanest(function: Function) -> str:
    """The least cpu and memory a request; a core counts as much as 4 GiB."""
    return min(
        function.sizes,
        key=lambda s: (s.cpu_millicores / 1000 + s.memory_bytes / (4 << 30)) / s.concurrency,
    ).name


_RULES: Mapping[str, Callable[[Function], str]] = {
    "smallest": _smallest, "largest": _largest, "leanest": _leanest,
}  # fmt: skip


def run(seeds: Sequence[int], sweep: Sequence[int], say: Callable[[str], None]) -> dict[str, Any]:
    """`sweep`: seeds on which each baseline's setting is found."""
    figures: dict[str, Any] = {"bench": "nodes-joint", "seeds": f"{seeds[0]}-{seeds[-1]}"}
    rows = []
    for functions in FUNCTIONS:
        best = _best_settings(functions, sweep[:_SWEEP_SEEDS])
        say(f"{functions} functions: best settings {best}")
        costs: list[dict[str, float]] = []
        seconds: list[float] = []
        for seed in seeds:
            found, took_s = _costs(draw(seed, functions), best)
            costs.append(found)
            seconds.append(took_s)
            say(f"{functions} functions, seed {seed}: " + ", ".join(f"{a} {c:.4f}" for a, c in found.items()))
        for arm in costs[0]:
            ratios = [one[JOINT] / one[arm] for one in costs]
            if arm != JOINT:
                interval = rounded(geometric_mean([[ratio] for ratio in ratios]))
                figures[f"joint / {arm}, {functions} functions"] = interval | {"worst": round(max(ratios), 4)}
        rows.append(
            {
                "functions": functions,
                "settings": best,
                "usd_per_hour": {a: round(statistics.mean(c[a] for c in costs), 4) for a in costs[0]},
                "decision_cpu_s": round(statistics.median(seconds), 3),
            }
        )
    return figures | {"rows": rows}


def _offered() -> tuple[Offer, ...]:
    catalogue, _ = StrictCatalogue(SHIPPED).read()
    return offers(catalogue, Settings())


def _by_fcma(offered: Sequence[Offer], counts: Counter[Kind]) -> float:
    if unservable(counts, offered):
        return math.inf
    problem = problem_of(counts, offered)
    try:
        solution = search.solve(problem, Deadline.after(_SOLVE_S, time.process_time))
    except InfeasibleProblem:
        return math.inf
    verify(problem, solution.allocation)
    return solution.cost_per_hour


def _by_stock(offered: Sequence[Offer], counts: Counter[Kind]) -> float:
    """As consolidation would leave it, at best."""
    problem, deadline = problem_of(counts, offered), Deadline.after(60.0, time.process_time)
    fits = [fit(problem, deadline).cost_per_hour for fit in (first_fit.by_core, first_fit.by_price)]
    return min(first_choice(counts, offered).cost_per_hour, *fits)


def _counts(shortage: Shortage, sizes: Sequence[Sizes]) -> Counter[Kind]:
    counts = Counter(shortage.others)
    for function, chosen in zip(shortage.functions, sizes, strict=True):
        counts.update({function.kinds[name]: count for name, count in chosen.items()})
    return counts


def _combofunc(shortage: Shortage, weight: float) -> list[Sizes]:
    return [
        Counter(
            size.name
            for size in sizes_for_new_nodes(f.sizes, f.need, _TAU_CREATE_S, Weights(price_weight=weight))
        )
        for f in shortage.functions
    ]


def _single(function: Function, name: str) -> Sizes:
    size = next(size for size in function.sizes if size.name == name)
    return {name: math.ceil(function.need / size.concurrency)}


def _by_rule(shortage: Shortage, rule: str) -> list[Sizes]:
    return [_single(function, _RULES[rule](function)) for function in shortage.functions]


def _best_settings(functions: int, seeds: Sequence[int]) -> dict[str, Any]:
    """The setting with the lowest geometric mean of costs, for each baseline."""
    offered = _offered()
    drawn = [draw(seed, functions) for seed in seeds]

    def best(settings: Sequence[Any], choose: Callable[[Shortage, Any], list[Sizes]], price: Pricing) -> Any:
        def mean(setting: Any) -> float:
            return statistics.mean(math.log(price(_counts(s, choose(s, setting)))) for s in drawn)

        return min(settings, key=mean)

    stock, fcma = partial(_by_stock, offered), partial(_by_fcma, offered)
    return {
        COMBOFUNC: best(_WEIGHTS, _combofunc, stock),
        IN_TURN: best(_WEIGHTS, _combofunc, fcma),
        FCMA: best(tuple(_RULES), _by_rule, fcma),
    }


def _costs(shortage: Shortage, best: Mapping[str, Any]) -> tuple[dict[str, float], float]:
    """By arm; and the CPU seconds of the joint decision."""
    offered = _offered()
    stock, fcma = partial(_by_stock, offered), partial(_by_fcma, offered)
    demands = [
        Demand(str(i), f.need, asked, f.kinds, {size.name: size.concurrency for size in f.sizes})
        for i, (f, asked) in enumerate(
            zip(shortage.functions, _combofunc(shortage, Weights().price_weight), strict=True)
        )
    ]
    began_s = time.process_time()
    joint = choose_sizes(shortage.others, demands, offered, fcma).cost_per_hour
    took_s = time.process_time() - began_s
    return {
        JOINT: joint,
        COMBOFUNC: stock(_counts(shortage, _combofunc(shortage, best[COMBOFUNC]))),
        FCMA: fcma(_counts(shortage, _by_rule(shortage, best[FCMA]))),
        IN_TURN: fcma(_counts(shortage, _combofunc(shortage, best[IN_TURN]))),
        BEST_SINGLE: _best_single(shortage, fcma),
    }, took_s


def _best_single(shortage: Shortage, price: Pricing) -> float:
    """One function after the other takes the size that is cheapest with the others as they are."""
    sizes = _by_rule(shortage, "leanest")
    cost = price(_counts(shortage, sizes))
    for i, function in enumerate(shortage.functions):
        for size in function.sizes:
            tried = [*sizes[:i], _single(function, size.name), *sizes[i + 1 :]]
            if (other := price(_counts(shortage, tried))) < cost:
                sizes, cost = tried, other
    return cost
