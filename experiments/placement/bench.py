"""Are pods Ready sooner with the extender? `surgekit bench placement`.

Each round draws node speeds and a workload from its seed and plays them twice: with stock kube-scheduler,
and with the same scheduler plus the extender. The order alternates. Each arm restarts the node model, so
both see the same speeds at the same moments. The extender learns speeds only from the probe, which starts
with the arm and knows nothing at first.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from experiments.arrivals import Arrivals, is_ready
from experiments.intervals import geometric_mean, rounded
from experiments.placement.workload import (
    BACKGROUND,
    SURGE,
    Background,
    Workload,
    fragments,
    residents,
    scale_out,
)
from experiments.seeds import REPORTED
from kwok import parts
from kwok.lab import Lab
from kwok.physics import MEASURED
from kwok.pods import delete_pods, wait_for_account
from kwok.scenario import Scenario, Walk
from surgekit.kube.pods import Creation, creation, requests

__all__ = ["Arm", "Plan", "Trial", "play", "prepare", "run"]

GIB = float(1 << 30)


@dataclass(frozen=True)
class Trial:
    """What both arms of a round share."""

    workload: Workload
    seed: int
    equal_nodes: bool = False  # one constant speed instead of speeds drawn from the seed
    walk: Walk = field(default_factory=Walk)  # of the speeds drawn


@dataclass(frozen=True)
class Arm:
    """The result of one scale-out."""

    seconds: float  # until all pods were Ready
    ready_s: list[float]  # of each pod, sorted
    placed: dict[str, int]  # pods per node
    tau_create_s: dict[str, float]  # the true speed of each node when the scale-out began
    believed_s: dict[str, float]  # what the probe had published by then
    fragments_before: dict[str, float]
    fragments_after: dict[str, float]


@dataclass(frozen=True)
class Plan:
    seeds: Sequence[int] = REPORTED[:7]  # of rounds with nodes of different speeds
    equal_seeds: Sequence[int] = REPORTED[:3]  # of rounds with equal nodes
    weight: int = parts.WEIGHT  # of the extender
    walk: Walk = field(default_factory=Walk)
    workload: Workload = field(default_factory=Workload)


def run(plan: Plan, say: Callable[[str], None]) -> dict[str, Any]:
    workload, weight = plan.workload, plan.weight
    with Lab.temporary("bench-placement") as lab:
        nodes = prepare(lab, workload)
        drawn = [_round(lab, nodes, Trial(workload, s, walk=plan.walk), weight, say) for s in plan.seeds]
        equal = [
            _round(lab, nodes, Trial(workload, s, equal_nodes=True), weight, say) for s in plan.equal_seeds
        ]
    speedups = [r["speedup"] for r in drawn]
    ours = [r["extender"] for r in drawn]
    return {
        "speedup": rounded(geometric_mean([[speedup] for speedup in speedups])),
        "speedup_worst_round": round(min(speedups), 3),
        "equal_nodes_speedup": rounded(geometric_mean([[r["speedup"]] for r in equal])) if equal else None,
        "fragments_before": round(statistics.mean(a["fragments_before"]["cores"] for a in ours), 3),
        "fragments_after": round(statistics.mean(a["fragments_after"]["cores"] for a in ours), 3),
        "stock_fragments_after": round(
            statistics.mean(r["stock"]["fragments_after"]["cores"] for r in drawn), 3
        ),
        "weight": weight,
        "walk": asdict(plan.walk),
        "workload": asdict(workload),
        "rounds": drawn,
        "equal_rounds": equal,
    }


def prepare(lab: Lab, workload: Workload) -> list[str]:
    """Create the nodes and namespaces that every arm uses; return the node names."""
    parts.install(lab)
    nodes = lab.add_nodes(workload.nodes, cpu=workload.node_cpu, memory=workload.node_memory)
    for name, labels in ((BACKGROUND, {}), (SURGE, {"surgekit.dev/placement": "enforce"})):
        lab.kube.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        wait_for_account(lab.kube, name)
    return nodes


def _round(
    lab: Lab, nodes: list[str], trial: Trial, weight: int, say: Callable[[str], None]
) -> dict[str, Any]:
    kind, seed = "equal nodes, round" if trial.equal_nodes else "round", trial.seed
    order = ("stock", "extender") if seed % 2 else ("extender", "stock")
    arms = {}
    for arm in order:
        say(f"{kind} {seed} {arm}: background for {trial.workload.warm_up_s:.0f} s")
        arms[arm] = play(lab, nodes, trial, weight if arm == "extender" else None)
        say(f"{kind} {seed} {arm}: all Ready after {arms[arm].seconds:.2f} s")
    speedup = arms["stock"].seconds / arms["extender"].seconds
    say(f"{kind} {seed}: speedup {speedup:.2f}")
    return {"seed": seed, "speedup": round(speedup, 4)} | {name: asdict(a) for name, a in arms.items()}


def play(lab: Lab, nodes: list[str], trial: Trial, weight: int | None, *, keep: bool = False) -> Arm:
    """Run background load, then the scale-out. `weight` is the extender's, or None for stock.

    With `keep` the pods and processes stay for the caller to look at."""
    workload, seed = trial.workload, trial.seed
    config: dict[str, Any] = {}
    if weight is not None:
        parts.start_probe(lab)
        config = {"extenders": [parts.start_extender(lab).scheduler_entry(weight)]}
    lab.start_scheduler(config)
    # Last, so that both arms see the same speeds when the scale-out begins.
    tau_s = workload.tau_create_s
    lab.start_node_model(
        Scenario.equal(nodes, tau_create_s=tau_s, physics=MEASURED)
        if trial.equal_nodes
        else Scenario.draw(seed, nodes, tau_create_s=tau_s, walk=trial.walk)
    )
    residents(lab.kube, nodes, workload, seed)
    background = Background(lab.kube, nodes, workload, seed)
    try:
        time.sleep(workload.warm_up_s)
        arrivals = Arrivals(lab.kube, SURGE, ready=is_ready)
        scenario = lab.scenario
        at_s = time.time() - scenario.epoch_s
        truth = {n: round(scenario.tau_create_s(n, at_s), 4) for n in nodes}
        believed, before = _believed(lab), _free(lab)
        began_s = time.monotonic()
        scale_out(lab.kube, workload)
        ready = sorted(t - began_s for t in arrivals.wait("ready", workload.replicas, 180).values())
        arrivals.close()
    finally:
        background.stop()
    placed = dict(sorted(Counter(arrivals.node.values()).items()))
    after = _free(lab)
    if not keep:
        _clear(lab, weight is not None)
    size = float(workload.cpu_millicores), float(workload.memory_mib << 20)
    return Arm(
        seconds=round(ready[-1], 3),
        ready_s=[round(r, 3) for r in ready],
        placed=placed,
        tau_create_s=truth,
        believed_s=believed,
        fragments_before=fragments(before, *size),
        fragments_after=fragments(after, *size),
    )


def _clear(lab: Lab, with_extender: bool) -> None:
    """Delete what the arm created, so that the next starts from an empty cluster."""
    lab.kube.delete(f"/apis/apps/v1/namespaces/{SURGE}/deployments", propagationPolicy="Background")
    lab.kube.delete(f"/apis/apps/v1/namespaces/{SURGE}/replicasets", propagationPolicy="Background")
    for namespace in (SURGE, BACKGROUND):
        delete_pods(lab.kube, namespace)
    lab.stop_scheduler()
    if with_extender:
        lab.stop("extender")
        lab.stop("probe")
        lab.kube.delete("/apis/surgekit.dev/v1alpha1/nodespeeds")
    lab.stop("node-model")


def _believed(lab: Lab) -> dict[str, float]:
    speeds, _ = lab.kube.list_all("/apis/surgekit.dev/v1alpha1/nodespeeds")
    return {s["metadata"]["name"]: round(s["status"]["tauCreateSeconds"], 4) for s in speeds if "status" in s}


def _free(lab: Lab) -> dict[str, tuple[float, float]]:
    """(millicores, bytes) not requested by any pod, by node."""
    free = {}
    nodes, _ = lab.kube.list_all("/api/v1/nodes")
    for node in nodes:
        amounts = node["status"]["allocatable"]
        whole = {"spec": {"containers": [{"resources": {"requests": amounts}}]}}
        free[node["metadata"]["name"]] = requests(whole)
    pods, _ = lab.kube.list_all("/api/v1/pods", fieldSelector="spec.nodeName!=")
    for pod in pods:
        if creation(pod) is not Creation.FINISHED:
            cpu, memory = requests(pod)
            node_cpu, node_memory = free[pod["spec"]["nodeName"]]
            free[pod["spec"]["nodeName"]] = node_cpu - cpu, node_memory - memory
    return free
