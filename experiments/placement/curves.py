"""`surgekit bench placement --simulated`: the gain over how fast speeds change and how unequal nodes are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from experiments.intervals import geometric_mean, mean
from experiments.placement.simulation import Policy, Scaled, simulate
from experiments.placement.workload import Workload
from experiments.seeds import REPORTED
from kwok.scenario import SPREAD, Scenario, Walk

__all__ = ["Axes", "run", "table"]


@dataclass(frozen=True)
class Axes:
    """Each step is played with the default spread, each spread with the default step."""

    steps_s: Sequence[float] = (5.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0)
    spreads: Sequence[float] = (0.0, 0.1, 0.2, 0.34, 0.5, 0.7)
    default_step_s: float = 60.0
    default_spread: float = SPREAD
    seeds: Sequence[int] = REPORTED[:20]

    @classmethod
    def quick(cls) -> Axes:
        return cls((5.0, 60.0), (0.0, 0.34), seeds=REPORTED[:5])

    def points(self) -> Iterator[tuple[float, float]]:
        found = [(step_s, self.default_spread) for step_s in self.steps_s]
        found += [(self.default_step_s, spread) for spread in self.spreads]
        yield from dict.fromkeys(found)


def run(axes: Axes, say: Callable[[str], None]) -> dict[str, Any]:
    points = []
    with ProcessPoolExecutor() as pool:
        for step_s, spread in axes.points():
            jobs = [(seed, step_s, spread, policy) for policy in Policy for seed in axes.seeds]
            played = dict(zip(jobs, pool.map(_play, jobs), strict=True))
            by_policy = {p: [played[seed, step_s, spread, p] for seed in axes.seeds] for p in Policy}
            points.append({"step_s": step_s, "spread": spread} | _figures(by_policy))
            speedup = points[-1]["speedup"][Policy.OURS]["geomean"]
            say(f"step {step_s:g} s, spread {spread:g}: {speedup:.2f}")
    return {"simulated": True, "seeds": [axes.seeds[0], axes.seeds[-1]], "points": points}


def _play(job: tuple[int, float, float, Policy]) -> Scaled:
    seed, step_s, spread, policy = job
    workload = Workload()
    names = [f"node-{i}" for i in range(workload.nodes)]
    scenario = Scenario.draw(
        seed, names, tau_create_s=workload.tau_create_s, walk=Walk.of_spread(spread, step_s)
    )
    return simulate(workload, scenario, seed, policy)


def _figures(by_policy: Mapping[Policy, Sequence[Scaled]]) -> dict[str, Any]:
    stock, ours = by_policy[Policy.STOCK], by_policy[Policy.OURS]
    return {
        "speedup": {
            policy: geometric_mean([[s.seconds / p.seconds] for s, p in zip(stock, played, strict=True)])
            for policy, played in by_policy.items()
            if policy is not Policy.STOCK
        },
        "stock_s": mean([played.seconds for played in stock]),
        "probe_age_s": mean([played.age_s for played in ours]),
        "probe_error": mean([played.believed_error for played in ours]),
    }


def table(figures: Mapping[str, Any]) -> Table:
    found = Table(
        "speeds change every", "spread of ln(tau)", "stock / ours", "if speeds were known", "without speeds",
        "age of the probe's samples, s", "its error",
        title="seconds until all pods are Ready, in virtual time",
    )  # fmt: skip
    for point in figures["points"]:
        ratios = [point["speedup"][p] for p in (Policy.OURS, Policy.KNOWN, Policy.COUNTED)]
        found.add_row(
            f"{point['step_s']:g} s",
            f"{point['spread']:g}",
            *(f"{r['geomean']:.2f} ({r['low']:.2f} to {r['high']:.2f})" for r in ratios),
            f"{point['probe_age_s']['mean']:.1f}",
            f"{point['probe_error']['mean']:.0%}",
        )
    return found
