"""A relaxation with memory: resources are pooled per family, as if nodes could be divided anywhere.

    minimise    sum_i p_i X_i
    such that   sum_fl l r_af Y_afl >= w_a                      for every app           (2)
                sum_al l c_af Y_afl <= sum_{i in f} c_i X_i     for every family        (3)
                sum_al m_afl Y_afl  <= sum_{i in f} m_i X_i     for every family

The paper's phase 1 has (2) and (3), without memory. m_afl is the least memory of one container of level l, so
the optimum is a lower bound of every allocation's cost. As a linear program it is solved in milliseconds. Its
duals are the worth of an app's performance, which the search for node patterns needs. With whole containers
and nodes the bound is tighter.
"""

from __future__ import annotations

import math

import numpy as np

from cluster_autoscaler_hook.solver.best.tables import Bundles, Floats, Tables
from cluster_autoscaler_hook.solver.linear_program import LinearProgram

__all__ = ["lower_bound", "worth_and_bound"]


def worth_and_bound(tables: Tables, seconds: float) -> tuple[Floats, float]:
    """The worth of one unit of each app's performance, and a lower bound of the cost.

    The worth assumes that the containers of an app share its workload evenly: an app that needs 1.2
    containers pays for two."""
    needed = np.maximum(tables.needed(tables.workload), 1)
    app, family = np.nonzero(tables.runs)
    even = 1 / needed[app, family]
    cores, memory = tables.cores[app, family], tables.memory_per_container[app, family]
    singles = Bundles(app, family, np.ones_like(app), cores, memory)
    duals = _program(tables, singles, even, whole=False).solve(seconds).duals
    # Without duals: the cost of an app's performance on the node that suits it best.
    alone = (tables.least_cost / tables.performance).min(axis=1)
    # A dual can be 0, but a worth may not: nothing would serve the app.
    worth = alone if duals is None else np.maximum(duals[: len(alone)], 1e-3 * alone)
    return worth, lower_bound(tables, seconds)


def lower_bound(tables: Tables, seconds: float, nodes: int | None = None) -> float:
    """A lower bound of every allocation's cost; tighter with whole containers and nodes, within a limited
    search. It has all aggregation levels, also above the need: 8 can need less memory than 7. No app is
    served more than its workload."""
    b = tables.bundles
    served = np.minimum(b.level * tables.performance[b.app, b.family], 1.0)
    program = _program(tables, b, served, whole=nodes is not None)
    return max(program.solve(seconds, 1e-4, nodes).bound, 0.0)


def _program(tables: Tables, b: Bundles, served: Floats, *, whole: bool) -> LinearProgram:
    """`served`: the performance of each bundle."""
    apps, families = len(tables.apps), len(tables.families)
    program = LinearProgram(
        [*tables.workload, *[-math.inf] * (2 * families)],
        [math.inf] * apps + [0.0] * (2 * families),
    )
    for i, f in enumerate(tables.class_family):
        row, room = apps + 2 * int(f), tables.room[i]
        program.add(float(tables.price[i]), [row, row + 1], [-room[0], -room[1]], integer=whole)
    for a, f, *coefficients in zip(b.app, b.family, served, b.cores, b.memory, strict=True):
        program.add(0.0, [a, apps + 2 * f, apps + 2 * f + 1], coefficients, integer=whole)
    return program
