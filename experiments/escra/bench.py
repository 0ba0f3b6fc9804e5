"""Plays the runs of a plan on this machine's cgroups: `surgekit bench escra`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial as bound
from pathlib import Path
from typing import Any

import numpy as np

from experiments.escra import stock_resize, swarm_over_grpc
from experiments.escra.applications import APPLICATIONS
from experiments.escra.arms import Arm, Peaks, sums
from experiments.escra.chain import Chain
from experiments.escra.figures import figures
from experiments.escra.limiters import AutopilotLimits, History, Limiter
from experiments.escra.loads import TRACE, arrivals_s, trace_rates
from experiments.escra.node import Node
from experiments.escra.node_bench import reaction, stepping
from experiments.escra.observer import SAMPLE_S, Observed, Observer
from experiments.escra.plan import Plan, Run, add_finished, read_finished
from experiments.escra.running import running
from experiments.escra.serverless.figures import serverless_figures
from experiments.escra.serverless.play import play as play_serverless
from experiments.escra.traffic import answers, play
from experiments.escra.vpa import VpaLimits
from limit_allocator.allocation.model import PERIOD_US

__all__ = ["limiter_of", "run"]

Json = dict[str, Any]
Say = Callable[[str], None]
_MIB = 1 << 20
# Less for each container is none: the kernel charges up to 256 KiB ahead for each CPU, and limits are late.
_LEFT_MIB = 1.0
_CORES = 2.0  # that 1.5 times the peaks and the load generator have to fit


def run(plan: Plan, partial: Path | None, say: Say) -> Json:
    """Play what is not in `partial` yet, and append it there."""
    finished = read_finished(partial)

    def once(key: str, do: Callable[[], Json]) -> Json:
        kept = f"{plan.tag} {key}"
        if kept not in finished:
            finished[kept] = do()
            add_finished(partial, kept, finished[kept])
        return dict(finished[kept])

    with Node.temporary() as node:
        peaks: dict[tuple[str, str], Peaks] = {}
        histories: dict[tuple[str, str], dict[int, Sequence[History]]] = {}
        for profile in plan.profiles():
            say(f"profile of {profile.application} under {profile.load}, seed {profile.seed}")
            found = once(profile.key, bound(_profile, node, plan, profile))
            place = profile.application, profile.load
            peaks[place] = _highest(peaks.get(place), found["peaks"])
            histories.setdefault(place, {})[-profile.seed] = found["history"]
        for (application, load), peak in peaks.items():
            cores = sum(of["cores"] for of in peak.values())
            say(f"{application} under {load}: peaks of {cores:.2f} cores in all")
            if 1.5 * cores > _CORES:
                say(f"  1.5 times these peaks are more than {_CORES:g} cores: no arm can have that")
        runs = list(plan.runs())
        for number, one in enumerate(runs, start=1):
            place = one.application, one.load
            # Seeds of a sweep have no profile of their own.
            history = histories[place].get(one.seed, next(iter(histories[place].values())))
            known = f"{plan.tag} {one.key}" in finished
            found = once(one.key, bound(_measure, node, plan, one, peaks[place], history))
            if not known:
                say(f"{number} of {len(runs)}: {one.key} p99.9 {found['answers']['p999_ms']:.0f} ms")
        found = figures({one.key: finished[f"{plan.tag} {one.key}"] for one in runs}, plan, peaks)
        if plan.reaction_containers:
            say(f"reaction with {plan.reaction_containers} containers")
            found["reaction_ms"] = once("reaction", lambda: reaction(node, plan, limiter_of))
            found["agent_core_share"] = found["reaction_ms"]["agent_core_share"]
        if plan.stepping:
            found["stepping"] = {}
            for name in plan.stepping:
                say(f"a load in steps, {name}")
                found["stepping"][name] = once(f"stepping/{name}", bound(stepping, node, name, limiter_of))
        if plan.scale_containers:
            found["scale"] = []
            for count in plan.scale_containers:
                say(f"the controller with {count} containers")
                found["scale"].append(once(f"scale/{count}", bound(swarm_over_grpc.measure, count)))
            found["containers_per_core"] = found["scale"][-1]["containers_per_core"]
        if plan.stock_resize:
            say("in-place resize through the API, on a real node")
            resized = once("stock_resize", bound(stock_resize.play, node))
            found["stepping"] = found.get("stepping", {}) | resized
        return found | _serverless(node, plan, once, say)


def _serverless(node: Node, plan: Plan, once: Callable[[str, Callable[[], Json]], Json], say: Say) -> Json:
    if plan.serverless is None:
        return {}
    played = []
    for run in (run for seed in plan.seeds for run in plan.serverless.runs(seed)):
        say(f"serverless, {run.function.name} under {run.arm.name}, seed {run.seed}")
        key = run.key(plan.serverless)
        played.append((run, once(key, bound(play_serverless, node, plan.serverless, run))))
    return serverless_figures(played)


def limiter_of(arm: Arm, cpu_us: int, memory_bytes: int, history: Sequence[History] = ()) -> Limiter:
    """What sets limits. The global limits are for ours, the history is for those that learn."""
    if arm.ours:
        return Chain(arm.ours, cpu_us, memory_bytes, arm.report_period_s)
    if arm.autopilot_every_s:
        return AutopilotLimits(arm.autopilot_every_s, history, burst=arm.burst)
    if arm.vpa_half_life_s:
        return VpaLimits(history, arm.vpa_half_life_s)
    return Limiter()


def _profile(node: Node, plan: Plan, profile: Run) -> Json:
    """The highest use of each service over windows, and of memory at any sample."""
    names = [service.name for service in APPLICATIONS[profile.application].services]
    nothing = {name: {"cores": 1.0, "mib": 1024.0} for name in names}
    observed, (first_s, last_s), found = _play(node, plan, profile, nothing)
    _, used_cores, _, used_mib = observed.between(first_s, last_s)
    width = max(round(plan.profile_window_s / SAMPLE_S), 1)
    window = np.ones(width) / width
    return found | {
        "history": [  # what Autopilot begins with
            [np.round(used_cores[:, at] * PERIOD_US).tolist(), np.round(used_mib[:, at] * _MIB).tolist()]
            for at in range(len(observed.names))
        ],
        "peaks": {
            name: {
                "cores": float(np.convolve(np.nan_to_num(used_cores[:, at]), window, "valid").max()),
                "cores_100_ms": float(np.nanmax(used_cores[:, at])),
                "mib": float(np.nanmax(used_mib[:, at])),
            }
            for at, name in enumerate(observed.names)
        },
    }


def _measure(node: Node, plan: Plan, one: Run, peaks: Peaks, history: Sequence[History]) -> Json:
    observed, (first_s, last_s), found = _play(node, plan, one, peaks, history)
    limit_cores, used_cores, limit_mib, used_mib = observed.between(first_s, last_s)
    total_cores = np.nansum(limit_cores, axis=1) if one.arm.cpu_limited else np.zeros(1)
    left_mib = [round(one.arm.memory_bytes(peaks) / _MIB - used, 1) for used in observed.used_mib_at_kills]
    return found | {
        "memory_left_at_kills_mib": left_mib,
        "oom_kills_with_memory_left": sum(left > _LEFT_MIB * len(observed.names) for left in left_mib),
        "cpu_slack_cores": _slack(limit_cores, used_cores),
        "memory_slack_mib": _slack(limit_mib, used_mib),
        "mean_limit_cores": float(total_cores.mean()),
        "most_limit_cores": float(total_cores.max()),
        "mean_used_cores": float(np.nansum(used_cores, axis=1).mean()),
        "throttled_share": observed.throttled / max(observed.periods, 1),
        "reactions_ms": observed.reactions.took_ms,
        "reactions_unanswered": observed.reactions.unanswered,
    }


def _slack(limit: np.ndarray, used: np.ndarray) -> Json | None:
    """Per container and sample, as in the paper's figures 5 and 6; None without limits."""
    slack = (limit - used)[~np.isnan(limit - used)]
    if not len(slack):
        return None
    slack = np.maximum(slack, 0.0)  # samples and the kernel's periods do not end together
    return {"p50": float(np.percentile(slack, 50)), "p99": float(np.percentile(slack, 99)),
            "cdf": np.percentile(slack, np.arange(0, 101, 5)).tolist()}  # fmt: skip


def _play(
    node: Node, plan: Plan, one: Run, peaks: Peaks, history: Sequence[History] = ()
) -> tuple[Observed, tuple[float, float], Json]:
    """One run. Returns also when it was measured, by the monotonic clock."""
    application, arm = APPLICATIONS[one.application], one.arm
    # The profile of a trace is of the same minutes: it is about other requests, not about another load.
    rates = trace_rates(plan.data, abs(one.seed)) if one.load == TRACE else []
    duration_s = plan.warm_up_s + one.measured_s
    due_s = arrivals_s(one.load, application.rate_per_s, duration_s, one.seed, rates)
    limiter = limiter_of(arm, *sums(peaks, arm.factor), history)
    with running(node, application, arm.limits(peaks), _draws(one.seed)) as here:
        ready = here.wait_until_ready()
        limiter.start(node.hierarchy, list(here.cgroups.values()), node.clear("limiter"))
        try:
            with Observer(node.hierarchy, here.cgroups) as observer:
                records, began_s = play(node, here.door, due_s, duration_s, here.revive)
            offset_s = began_s + time.monotonic() - time.time()
            measured_s = (offset_s + plan.warm_up_s, offset_s + duration_s)
        finally:
            said = limiter.stop()
        found = {
            "answers": asdict(answers(records, began_s, plan.warm_up_s, duration_s)),
            "oom_kills": here.oom_kills(),
            "restarts": here.restarts,
            "ready": ready,
            "limiter": dict(said),
        }
    return observer.observed, measured_s, found


def _draws(seed: int) -> int:
    """The services' seed. Profiles have negative seeds, so that they draw other requests."""
    return seed if seed >= 0 else 100_000 - seed


def _highest(one: Peaks | None, other: Peaks) -> Peaks:
    if one is None:
        return other
    return {name: {key: max(one[name][key], of[key]) for key in of} for name, of in other.items()}
