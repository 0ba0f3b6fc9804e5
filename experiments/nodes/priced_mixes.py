"""What other solvers would pay for a mix of `bench nodes`. Here, as the lab knows no part of surgekit."""

from __future__ import annotations

from collections import Counter

from cluster_autoscaler_hook.karpenter.demand import offers, problem_of
from cluster_autoscaler_hook.karpenter.model import MIB, Kind
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.karpenter.strict_catalogue import SHIPPED, StrictCatalogue
from cluster_autoscaler_hook.solver.solve import Variant, solve
from experiments.nodes.mixes import Mix

__all__ = ["TABLE", "priced"]

TABLE = SHIPPED
_DEADLINE_S = 20.0


def priced(mix: Mix) -> dict[str, float]:
    """Costs an hour by the first-fit baselines, and the bound under every plan."""
    counts: Counter[Kind] = Counter()
    for size in mix.sizes:
        counts[Kind(size.cpu_millicores, size.memory_mib * MIB)] += size.count
    catalogue, _ = StrictCatalogue(TABLE).read()
    problem = problem_of(counts, offers(catalogue, Settings()))
    costs = {
        variant.value: solve(problem, _DEADLINE_S, variant).cost_per_hour
        for variant in (Variant.FFC, Variant.FFP)
    }
    best = solve(problem, Settings().solve_deadline_s, Variant.BEST)
    return costs | {"bound": best.lower_bound_per_hour}
