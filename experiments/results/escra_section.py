"""Escra's table of docs/results.md. Pure."""

from __future__ import annotations

from experiments.intervals import in_words
from experiments.results.papers import printed
from experiments.results.plot import Curve, Dot, Dots, Lines, Plot, Point
from experiments.results.section import Figures, Section, Summary, ratio

__all__ = ["escra"]

_LEAST_SEEDS = 3  # of a line in the README; a quick run is for the results page
_LIMITS = {
    "static_0_75": "static limits, 0.75 x peak",
    "static_1": "static limits, 1 x peak",
    "static_1_cpu": "static limits, 1 x peak, of memory 1.5 x",
    "static_1_5": "static limits, 1.5 x peak",
    "no_limit": "no CPU limit",
    "burst": "static limits, 1.5 x peak, with cfs burst",
    "autopilot": "Autopilot every second",
    "autopilot_burst": "Autopilot every second, with cfs burst",
    "vpa": "Vertical Pod Autoscaler's recommender every second",
    "ours_no_burst": "ours without cfs burst",
    "paper": "the paper's equations",
    "published": "the authors' program",
}
_FUNCTIONS = {
    "image": "short requests",
    "batch": "a batch of workers",
    "batch_80": "the batch at 80 % of the limits",
}


def escra(figures: Figures) -> Section:
    columns = (
        "other arm, as ratio to ours: above 1, ours is better",
        *("p99.9 latency", "throughput", "CPU slack p50", "memory slack p50", "OOM kills, other and ours"),
    )
    rows = []
    for arm, latency in figures["latency_ratio"].items():
        ours = figures["compared_with"][arm]
        slack = [figures[key].get(arm) for key in ("cpu_slack_ratio", "memory_slack_ratio")]
        kills = figures["oom_kills"]
        rows.append(
            (
                _LIMITS.get(arm, arm),
                ratio(latency),
                ratio(figures["throughput_ratio"][arm]),
                *(ratio(of["p50"]) if of else "no limit" for of in slack),
                f"{kills[arm]}, {kills[ours]}",
            )
        )
    seeds = figures["seeds"]
    notes = [
        f"Two applications of 7 and 11 services on this machine's cgroups, {len(figures['loads'])} loads, "
        f"{len(seeds)} seeds ({min(seeds)} to {max(seeds)}), {figures['measured_s']:g} s each, open loop. "
        f"Peaks are averages over {figures['profile_window_s']:g} s of a run with other draws. Ours has as "
        "global limit the sum of the static limits that it is compared with, and of those at 1.5 x peak "
        "beside the other arms. Services, load generator, agent and controller share the machine."
    ]
    if left := figures.get("oom_kills_with_memory_left"):
        notes.append(
            "OOM kills while the application had memory left (1 MiB a container): "
            + ", ".join(f"{arm} {count}" for arm, count in left.items() if arm != "ours")
            + "."
        )
    if (reaction := figures.get("reaction_ms", {})).get("episodes"):
        notes.append(
            f"From a throttled period's end to a higher quota, {reaction['containers']} containers: p50 "
            f"{reaction['p50']:.0f} ms, p99 {reaction['p99']:.0f} ms of {reaction['episodes']}, "
            f"{reaction['unanswered']} not within a second. The agent took "
            f"{reaction['agent_core_share']:.1%} of a core, the controller "
            f"{reaction['controller_core_share']:.1%}."
        )
    if functions := figures.get("serverless_cpu_ratio"):
        notes.append(
            "Functions, whose pods come and go, static limits over ours: "
            + "; ".join(
                f"{_FUNCTIONS[name]}: CPU limits {in_words(cpu)}, memory limits "
                f"{in_words(figures['serverless_memory_ratio'][name])}, mean latency "
                f"{in_words(figures['serverless_latency_ratio'][name])}"
                for name, cpu in functions.items()
            )
            + "."
        )
    return Section("Escra: limits of containers", columns, rows, notes, _summary(figures), _plots(figures))


def _plots(figures: Figures) -> list[Plot]:
    plots: list[Plot] = []
    for key, paper_key, title, axis in (
        ("latency_ratio", "latency", "p99.9 latency", "other / ours"),
        ("throughput_ratio", "throughput", "Throughput", "ours / other"),
        ("cpu_slack_ratio", "cpu_slack", "CPU slack, median", "other / ours"),
        ("memory_slack_ratio", "memory_slack", "Memory slack, median", "other / ours"),
    ):
        paper, ratios = printed(f"escra.{paper_key}"), figures[key]
        dots = [
            Dot(_LIMITS.get(arm, arm), (at := of.get("p50", of))["mean"], at["low"], at["high"])
            for arm, of in ratios.items()
            if of
        ]
        plots.append(
            Dots(
                title,
                f"{axis}, above 1 ours is better",
                [*dots, *paper.dots(lambda arm: _LIMITS.get(arm, arm))],
                paper.place,
                logarithmic=True,
            )
        )
    for arm, seen in figures.get("stepping", {}).items():
        limit, used = (
            [Point(*at) for at in zip(seen["at_s"], seen[key], strict=True)]
            for key in ("limit_cores", "used_cores")
        )
        plots.append(
            Lines(
                f"A load that steps, {_LIMITS.get(arm, 'ours' if arm.startswith('ours') else arm)}: "
                f"{seen['throttled_share']:.0%} of periods throttled",
                "seconds",
                "cores",
                [Curve("used", used), Curve("limit", limit, ours=arm.startswith("ours"), steps=True)],
                "fig. 2",
            )
        )
    return plots


def _summary(figures: Figures) -> Summary | None:
    latency, slack = figures["latency_ratio"], figures["cpu_slack_ratio"]
    compared = {"static_1_5", "autopilot"} <= latency.keys() & slack.keys()
    if not compared or len(figures["seeds"]) < _LEAST_SEEDS:
        return None
    behind = [
        f"{what} against {_LIMITS.get(arm, arm)}: {in_words(ratio)}"
        for what, ratios in (("p99.9 latency", latency), ("throughput", figures["throughput_ratio"]))
        for arm, ratio in ratios.items()
        if round(ratio["mean"], 2) < 1
    ]
    return Summary(
        "Escra",
        f"static limits at 1.5 x peak: {in_words(latency['static_1_5'])} times the p99.9 latency and "
        f"{in_words(slack['static_1_5']['p50'])} times the CPU slack; Autopilot: "
        f"{in_words(latency['autopilot'])} and {in_words(slack['autopilot']['p50'])} times",
        "; ".join(behind),
    )
