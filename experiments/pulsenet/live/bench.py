"""Plays the arms of a plan, one lab after another: `surgekit bench pulsenet`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.escra.plan import add_finished, read_finished
from experiments.pulsenet.live.arm import play
from experiments.pulsenet.live.figures import ratios
from experiments.pulsenet.live.plan import DEFAULTS, OURS, Plan
from experiments.pulsenet.live.validation import beside
from experiments.pulsenet.live.workload import choose
from experiments.pulsenet.trace import read

__all__ = ["run"]

Json = dict[str, Any]


def run(plan: Plan, partial: Path | None, say: Callable[[str], None]) -> Json:
    """Play what is not in `partial` yet, and append it there."""
    finished, functions = read_finished(partial), read(plan.data)
    runs: dict[str, list[Json]] = {}
    simulated: dict[str, Json] = {}
    for seed, setting in plan.settings():
        key = f"{plan.tag} seed {seed} {setting.key}"
        workload = choose(functions, plan.functions, plan.warm_up_s, plan.measured_s, seed)
        if key not in finished:
            requests = len(workload.requests.at_s)
            say(f"{setting.key}, seed {seed}: {len(workload.functions)} functions, {requests} requests")
            keep = partial.with_name(f"logs of {setting.arm}, seed {seed}") if partial else None
            finished[key] = play(workload, setting, plan.warm_up_s, plan.measured_s, keep) | {
                "functions": len(workload.functions),
                "first_minute": workload.first_minute,
            }
            add_finished(partial, key, finished[key])
        found = finished[key]
        say(f"  slowdown {found['slowdown']:.2f}, cost {found['cost']:.2f}, lost {found['lost']}")
        if setting == DEFAULTS[setting.arm]:
            runs.setdefault(setting.arm, []).append(found | {"seed": seed})
        simulated[f"{setting.key}, seed {seed}"] = beside(
            found, workload, setting, plan.warm_up_s, plan.measured_s
        )
    return {
        "live": True,
        "plan": plan.tag,
        **ratios(runs, OURS),
        "lost": sum(run["lost"] for of in runs.values() for run in of),
        "runs": runs,
        "simulated_beside": simulated,
    }
