"""Trimaran as a baseline: a Deployment of one size, placed by load-aware plugins of kube-scheduler.

The rest of the profile is kube-scheduler's. A pod that was just placed is known at once, as from the
plugins' informer of bound pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from experiments.combofunc.baselines import Stock, scored_nodes
from experiments.combofunc.model import Bound, State
from experiments.combofunc.trimaran_scores import LoadVariationRiskBalancing, Plugin, TargetLoadPacking
from experiments.combofunc.workload import Size

__all__ = ["PLUGINS", "Trimaran"]

_REPORTING_S = 60.0  # metricsAgentReportingIntervalSeconds, targetloadpacking.go

# What a sweep may choose: the defaults, other targets, what README.md recommends, and what fits the lab: a
# container never uses more than it requests there, and pods without requests use nearly nothing.
PLUGINS: Mapping[str, Plugin] = {
    "TargetLoadPacking": TargetLoadPacking(),
    "TargetLoadPacking 60 %": TargetLoadPacking(60),
    "TargetLoadPacking 80 %": TargetLoadPacking(80),
    "TargetLoadPacking, requests as they are": TargetLoadPacking(40, 1.0, 0),
    "TargetLoadPacking 80 %, requests as they are": TargetLoadPacking(80, 1.0, 0),
    "TargetLoadPacking, averaged": TargetLoadPacking(averaged=True),
    "LoadVariationRiskBalancing": LoadVariationRiskBalancing(),
    "LoadVariationRiskBalancing 1 2": LoadVariationRiskBalancing(1.0, 2.0),
    "LoadVariationRiskBalancing 3 1": LoadVariationRiskBalancing(3.0, 1.0),
}


class Trimaran(Stock):
    def __init__(self, size: Size, plugin: Plugin, seed: str, time_factor: float) -> None:
        """`time_factor`: how much faster than real time all clocks go."""
        super().__init__(size, f"trimaran/{seed}")
        self._plugin, self._reporting_s = plugin, _REPORTING_S / time_factor

    def _nodes(self, state: State, count: int) -> list[str]:
        scored = scored_nodes(state.nodes, self._size, Counter(c.node for c in state.containers))
        loads = dict(state.loads)
        placed: list[str] = []
        while len(placed) < count and len(possible := scored.fitting(0)):
            scores = scored.spread_scores(0, possible)
            if self._plugin.beside_resource_scores:
                scores = scores + scored.resource_scores(0, possible)
            views = [state.nodes[at] for at in possible]
            scores = scores + np.array(
                [self._plugin.score(v, loads[v.name], self._size, self._reporting_s) for v in views]
            )
            best = possible[scores == scores.max()]
            at = int(best[self._draw.randrange(len(best))])
            scored.put(0, at)
            name = state.nodes[at].name
            new = Bound(state.now_s, self._size.cpu_millicores)
            loads[name] = replace(loads[name], bound=[*loads[name].bound, new])
            placed.append(name)
        return placed
