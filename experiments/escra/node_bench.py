"""What needs no application: how soon ours reacts with many containers, and how it follows steps (fig. 2)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from experiments.escra.arms import ARMS, Arm
from experiments.escra.burn_plans import STEPPING, STEPPING_S, bursts
from experiments.escra.figures import reaction_figures
from experiments.escra.limiters import Limiter
from experiments.escra.node import Node
from experiments.escra.observer import Observed, Observer
from experiments.escra.plan import Plan
from limit_allocator.allocation.model import PERIOD_US
from limit_allocator.cgroups.container import Limits

__all__ = ["followed", "reaction", "stepping"]

Json = dict[str, Any]
Make = Callable[[Arm, int, int], Limiter]
_MIB = 1 << 20
_SETTLE_S = 5.0  # after registration, until idle containers are at their floors
_STEPPING_CORES = 1.8


def reaction(node: Node, plan: Plan, make: Make) -> Json:
    """Many containers on one node that are idle and then want 0.4 core. There is room for all they want."""
    count = plan.reaction_containers
    # Floors alone are 0.05 core each.
    cpu_us, memory_bytes = count * PERIOD_US // 10, count * 64 * _MIB
    limits = Limits(cpu_us, 0, memory_bytes)
    plans = [bursts(plan.seeds[0], number) for number in range(count)]
    with _limited(node, plans, limits, make(ARMS["ours_1_5"], cpu_us, memory_bytes)) as (cgroups, said):
        time.sleep(_SETTLE_S)
        with Observer(node.hierarchy, cgroups, memory=False) as observer:
            time.sleep(plan.reaction_s)
    found = observer.observed.reactions
    return reaction_figures(found.took_ms, found.unanswered, count) | said


def stepping(node: Node, name: str, make: Make) -> Json:
    """One container whose load steps: limit and use every 100 ms."""
    arm, cpu_us, memory_bytes = ARMS[name], int(_STEPPING_CORES * PERIOD_US), 256 * _MIB
    limits = Limits(cpu_us, 0, memory_bytes)
    with (
        _limited(node, [STEPPING], limits, make(arm, cpu_us, memory_bytes)) as (cgroups, _),
        Observer(node.hierarchy, cgroups) as observer,
    ):
        time.sleep(STEPPING_S)
    return followed(observer.observed)


def followed(seen: Observed) -> Json:
    """How the limit of the one container followed its use."""
    limit, used = (np.asarray(column)[:, 0] for column in (seen.limit_cores, seen.used_cores))
    return {
        "at_s": [round(at_s - seen.at_s[0], 2) for at_s in seen.at_s],
        "limit_cores": [round(float(value), 3) for value in limit],
        "used_cores": [round(float(value), 3) for value in used],
        "mean_slack_cores": round(float(np.maximum(limit - used, 0.0).mean()), 4),
        "throttled_share": round(seen.throttled / max(seen.periods, 1), 4),
    }


@contextmanager
def _limited(
    node: Node, plans: Sequence[str], limits: Limits, limiter: Limiter
) -> Iterator[tuple[Any, Json]]:
    """Containers under a limiter that now begin to follow plans. What it says at the end is in the second
    value."""
    said: Json = {}
    cgroups = {f"c{number}": node.add(limits) for number in range(len(plans))}
    processes = []
    try:
        limiter.start(node.hierarchy, list(cgroups.values()), node.clear("limiter"))
        try:
            for cgroup, plan in zip(cgroups.values(), plans, strict=True):
                processes.append(node.start(cgroup, [f"-burn={plan}"]))
            yield cgroups, said
        finally:
            said.update(limiter.stop())
    finally:
        for cgroup in cgroups.values():
            node.let_go(cgroup)
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
        for cgroup in cgroups.values():
            node.remove(cgroup)
