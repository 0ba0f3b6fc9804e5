"""A relaxation that knows memory: resources pooled per family, as if nodes could be cut anywhere.

    minimise    sum_i p_i X_i
    such that   sum_f r_af Y_af >= w_a                      for every app           (2)
                sum_a c_af Y_af <= sum_{i in f} c_i X_i     for every family        (3)
                sum_a m_af Y_af <= sum_{i in f} m_i X_i     for every family

The paper's phase 1 has (2) and (3), no memory. m_af is the memory of one minimum-size container at its
best aggregation level: nothing needs less, so the optimum is a lower bound of every allocation's cost.
As a linear program it is solved in milliseconds, and its duals say what an app's performance is worth,
which the search for node patterns needs; with whole containers and nodes its bound is tighter.
"""

from __future__ import annotations

import math

import numpy as np

from cluster_autoscaler_hook.best.tables import Floats, Tables
from cluster_autoscaler_hook.linear_program import LinearProgram

__all__ = ["bound_with_whole_containers", "worth_and_bound"]


def worth_and_bound(tables: Tables, seconds: float) -> tuple[Floats, Floats, float]:
    """What one unit of each app's performance is worth, twice, and a lower bound of the cost.

    First with performance as it is. Then as if the containers an app needs shared its workload evenly:
    an app that needs 1.2 containers pays for two, which the first cannot see."""
    true = _program(tables, tables.performance, whole=False).solve(seconds)
    needed = np.maximum(tables.needed(tables.workload), 1)
    even = np.where(tables.runs, np.minimum(tables.performance, tables.workload[:, None] / needed), 1.0)
    whole = _program(tables, even, whole=False).solve(seconds)
    apps = len(tables.apps)
    alone = _worth_alone(tables)
    # A dual can be 0; a worth may not, or nobody would serve the app.
    return (
        alone if true.duals is None else np.maximum(true.duals[:apps], 1e-3 * alone),
        alone if whole.duals is None else np.maximum(whole.duals[:apps], 1e-3 * alone),
        max(true.bound, 0.0),
    )


def bound_with_whole_containers(tables: Tables, seconds: float, nodes: int) -> float:
    return max(_program(tables, tables.performance, whole=True).solve(seconds, 1e-4, nodes).bound, 0.0)


def _program(tables: Tables, performance: Floats, *, whole: bool) -> LinearProgram:
    apps, families = len(tables.apps), len(tables.families)
    program = LinearProgram(
        [*tables.workload, *[-math.inf] * (2 * families)],
        [math.inf] * apps + [0.0] * (2 * families),
    )
    for i, f in enumerate(tables.class_family):
        cores, memory = apps + 2 * int(f), apps + 2 * int(f) + 1
        capacity = tables.room[i]
        program.add(float(tables.price[i]), [cores, memory], [-capacity[0], -capacity[1]], integer=whole)
    for a, f in zip(*np.nonzero(tables.runs), strict=True):
        program.add(
            0.0,
            [a, apps + 2 * f, apps + 2 * f + 1],
            [performance[a, f], tables.cores[a, f], tables.memory_per_container[a, f]],
            integer=whole,
        )
    return program


def _worth_alone(tables: Tables) -> Floats:
    """Without duals: what an app's performance costs on the node that suits it best."""
    worth = np.full(len(tables.apps), math.inf)
    for i, f in enumerate(tables.class_family):
        cores, memory, _ = tables.capacity[i]
        share = np.maximum(tables.cores[:, f] / cores, tables.memory_per_container[:, f] / memory)
        price = tables.price[i] * np.maximum(share, 1e-12) / tables.performance[:, f]
        worth = np.where(tables.runs[:, f], np.minimum(worth, price), worth)
    return worth
