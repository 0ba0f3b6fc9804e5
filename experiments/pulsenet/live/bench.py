"""Plays the arms of a plan, one lab after another: `surgekit bench pulsenet --live`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.pulsenet.live.arm import play
from experiments.pulsenet.live.figures import ratios
from experiments.pulsenet.live.plan import OURS, Plan
from experiments.pulsenet.live.workload import choose
from experiments.pulsenet.trace import read

__all__ = ["run"]

Json = dict[str, Any]


def run(plan: Plan, partial: Path | None, say: Callable[[str], None]) -> Json:
    """Play what is not in `partial` yet, and append it there."""
    finished, functions = _read_finished(partial), read(plan.data)
    runs: dict[str, list[Json]] = {}
    for seed, setting in plan.settings():
        key = f"{plan.tag} seed {seed} {setting.key}"
        if key not in finished:
            workload = choose(functions, plan.functions, plan.warm_up_s, plan.measured_s, seed)
            requests = len(workload.requests.at_s)
            say(f"{setting.key}, seed {seed}: {len(workload.functions)} functions, {requests} requests")
            keep = partial.with_name(f"logs of {setting.arm}, seed {seed}") if partial else None
            finished[key] = play(workload, setting, plan.warm_up_s, plan.measured_s, keep) | {
                "functions": len(workload.functions),
                "first_minute": workload.first_minute,
            }
            _add_finished(partial, key, finished[key])
        found = finished[key]
        say(f"  slowdown {found['slowdown']:.2f}, cost {found['cost']:.2f}, lost {found['lost']}")
        runs.setdefault(setting.arm, []).append(found | {"seed": seed})
    return {
        "live": True,
        "plan": plan.tag,
        **ratios(runs, OURS),
        "lost": sum(run["lost"] for of in runs.values() for run in of),
        "runs": runs,
    }


def _read_finished(partial: Path | None) -> dict[str, Json]:
    if partial is None or not partial.exists():
        return {}
    finished = {}
    for line in partial.read_text().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:  # cut off: played again
            continue
        finished[entry["key"]] = entry["found"]
    return finished


def _add_finished(partial: Path | None, key: str, found: Json) -> None:
    if partial is not None:
        partial.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("a") as file:
            file.write(json.dumps({"key": key, "found": found}) + "\n")
