"""All arms in virtual time: the sweep of the baselines, the comparison, and the parameters that the paper
varies."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from experiments.combofunc.arms import (
    ARMS,
    BASELINES,
    OURS,
    TRIMARAN,
    Choice,
    Choices,
    PlannedOf,
    Setup,
    beside,
    candidates,
    scaler,
)
from experiments.combofunc.figures import averages, compared, decisions, utilisation
from experiments.combofunc.model import Decision, Scaler, State
from experiments.combofunc.simulation import Outcome, simulate
from experiments.combofunc.workload import FUNCTIONS, Workload
from experiments.seeds import REPORTED, SWEEP

__all__ = ["Extent", "run"]

Say = Callable[[str], None]
# The first twenty were looked at before idle containers were kept in two stages.
_SEEDS = REPORTED[20:40]


@dataclass(frozen=True)
class Extent:
    """How much is played."""

    seeds: Sequence[int] = _SEEDS
    sweep_seeds: Sequence[int] = SWEEP[:3]
    price_weights: tuple[float, ...] = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)  # RQ4
    nodes: tuple[int, ...] = (12, 16, 24, 32, 64)  # RQ5, the load as on 16
    taus_create_s: tuple[float, ...] = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)  # RQ6
    keep_warm_s: tuple[float, ...] = (0.0, 20.0, 60.0, 100.0, 200.0)
    varied_seeds: Sequence[int] = _SEEDS[:3]  # for each varied parameter

    @classmethod
    def quick(cls) -> Extent:
        return cls(
            _SEEDS[:2], SWEEP[:1], (0.05, 0.25, 1.0), (16, 32), (0.2, 1.0, 5.0), (0.0, 100.0), _SEEDS[:1]
        )

    def with_seeds(self, seeds: Sequence[int]) -> Extent:
        """Report other seeds; the baselines are still swept on the same ones."""
        return replace(self, seeds=seeds, varied_seeds=seeds[: len(self.varied_seeds)])


@dataclass(frozen=True)
class _Job:
    arm: str
    workload: Workload
    seed: int
    choices: tuple[tuple[str, Choice], ...]
    price_weight: float | None = None
    keep_warm_s: float | None = None


Play = Callable[[Sequence[_Job]], list[Outcome]]


def run(workload: Workload, extent: Extent, planned: PlannedOf, say: Say) -> dict[str, Any]:
    with _player(planned) as play:
        choices, sweep = _sweep(workload, BASELINES, extent, play, say)
        seeds = extent.seeds
        played = {arm: play(_jobs(arm, workload, seeds, choices)) for arm in ARMS}
        say("the comparison is played")
        found = compared(played)
        found |= {
            "simulated": True,
            "seeds": list(seeds),
            "sizes": {a: {f: c.label(FUNCTIONS[f]) for f, c in choices[a].items()} for a in BASELINES},
            "choices": {a: {f: asdict(c) for f, c in choices[a].items()} for a in BASELINES},
            "sweep": sweep,
            "utilisation": {arm: utilisation(outcomes) for arm, outcomes in played.items()},
            "decision_ms": {"16": decisions(played[OURS])},  # RQ7: figs 23 and 24
            "decision_ms_of": {arm: decisions(outcomes) for arm, outcomes in played.items()},  # table 4
        }
        blind = replace(workload, load_shows_speed=False)
        blind_choices, _ = _sweep(blind, [TRIMARAN], extent, play, say)
        outcomes = play(_jobs(TRIMARAN, blind, seeds, blind_choices))
        found["load_hides_speed"] = compared({OURS: played[OURS], TRIMARAN: outcomes})
        some = extent.varied_seeds
        found["price_weight"] = {
            str(weight): averages(play(_jobs(OURS, workload, some, choices, price_weight=weight)))
            for weight in extent.price_weights
        }
        say("RQ4 is played")
        found["keep_warm_s"] = {
            str(keep_s): {
                arm: averages(play(_jobs(arm, workload, some, choices, keep_warm_s=keep_s))) for arm in ARMS
            }
            for keep_s in extent.keep_warm_s
        }
        say("keeping warm is played")
        found["nodes"] = {}
        for nodes in extent.nodes:
            at = {arm: play(_jobs(arm, replace(workload, nodes=nodes), some, choices)) for arm in ARMS}
            found["nodes"][str(nodes)] = {arm: averages(outcomes) for arm, outcomes in at.items()}
            found["decision_ms"][str(nodes)] = decisions(at[OURS])
        say("RQ5 is played")
        found["tau_create_s"] = {
            str(tau_s): {
                arm: averages(play(_jobs(arm, replace(workload, tau_create_s=tau_s), some, choices)))
                for arm in ARMS
            }
            for tau_s in extent.taus_create_s
        }
        say("RQ6 is played")
    return found


def _jobs(
    arm: str,
    workload: Workload,
    seeds: Iterable[int],
    choices: Mapping[str, Choices],
    *,
    price_weight: float | None = None,
    keep_warm_s: float | None = None,
) -> list[_Job]:
    chosen = tuple(choices.get(arm, {}).items())
    return [_Job(arm, workload, seed, chosen, price_weight, keep_warm_s) for seed in seeds]


@contextmanager
def _player(planned: PlannedOf) -> Iterator[Play]:
    with ProcessPoolExecutor() as pool:
        yield lambda jobs: list(pool.map(partial(_play, planned=planned), jobs))


def _play(job: _Job, planned: PlannedOf) -> Outcome:
    choices = dict(job.choices)

    def of(name: str) -> Scaler:
        setup = Setup(
            job.arm, job.seed, choices.get(name), job.price_weight, job.keep_warm_s, job.workload.time_factor
        )
        return _Timed(scaler(setup, FUNCTIONS[name], planned))

    return simulate(job.workload, job.seed, of)


@dataclass(frozen=True)
class _Timed:
    """A scaler whose decisions say how long they took. CPU time: several processes share the cores."""

    scaler: Scaler

    def decide(self, state: State, target: int) -> Decision:
        began_s = time.process_time()
        decision = self.scaler.decide(state, target)
        return replace(decision, decided_s=time.process_time() - began_s)


def _sweep(
    workload: Workload, arms: Sequence[str], extent: Extent, play: Play, say: Say
) -> tuple[dict[str, Choices], dict[str, Any]]:
    """The best choice of each baseline: the smallest product of time and cost over all functions.

    First all functions get the same choice, and each keeps its best. Then one function after the other
    tries the neighbouring sizes and other keep times, because the room that one leaves is used by others.
    """
    choices: dict[str, Choices] = {}
    tables: dict[str, Any] = {}
    seeds = extent.sweep_seeds
    for arm in arms:
        alike = candidates(arm)
        outcomes = [play(_jobs(arm, workload, seeds, {arm: dict.fromkeys(FUNCTIONS, c)})) for c in alike]
        tables[arm] = {_named(c): averages(o) for c, o in zip(alike, outcomes, strict=True)}
        scores = [_scores(o) for o in outcomes]
        best: dict[str, Choice] = {
            name: alike[min(range(len(alike)), key=lambda i: scores[i][name])] for name in FUNCTIONS
        }
        total = sum(_scores(play(_jobs(arm, workload, seeds, {arm: best}))).values())
        for name, function in FUNCTIONS.items():
            for other in beside(arm, best[name], len(function.sizes)):
                tried = {**best, name: other}
                new = sum(_scores(play(_jobs(arm, workload, seeds, {arm: tried}))).values())
                if new < total:
                    best, total = tried, new
        choices[arm] = best
        say(f"sweep of {arm}: " + ", ".join(f"{f} {c.label(FUNCTIONS[f])}" for f, c in best.items()))
    return choices, tables


def _named(choice: Choice) -> str:
    way = " shrink first" if choice.shrink_first else f" {choice.plugin}".rstrip()
    return f"step {choice.step}{way} kept {choice.keep_s:.0f} s"


def _scores(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """The logarithm of time times cost by function: lower is better."""
    return {
        name: math.log(figures["scaling_s"] + 1e-9) + math.log(figures["cost"] + 1e-9)
        for name, figures in averages(outcomes).items()
    }
