"""What do nodes cost, and how soon do pods run? Karpenter alone against the hook: `surgekit bench nodes`.

One lab with one Karpenter, its own NodePool, and the hook beside it, all the time. Each mix is played twice
from an empty cluster, as Deployments: once for Karpenter's pool, once opted in. The order alternates. Both
rent from the same on-demand classes. Costs are read when Karpenter's consolidation has settled. Time runs
until the last pod is Ready. Pods start and machines register at once, so it measures deciding and
launching.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.arrivals import Arrivals, is_ready
from experiments.intervals import geometric_mean, rounded
from experiments.nodes.mixes import Mix
from kwok import karpenter, parts
from kwok.errors import LabError
from kwok.lab import Lab
from kwok.pods import wait_for_account

__all__ = ["Arm", "Priced", "run"]

# Costs of a mix by other solvers, and the lower bound ("bound"). The command line provides them.
Priced = Callable[[Mix], dict[str, float]]
_PRICE = "eks-node-viewer/instance-price"
_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
# Karpenter checks every 10 s and waits 15 s before it acts. After this long without a change it has settled.
_SETTLED_S = 45.0
# The hook does not move pods, so its nodes are final when all pods run.
_OURS_SETTLED_S = 10.0
_LONGEST_S = 300.0
OURS, KARPENTER = "ours", "karpenter"


@dataclass(frozen=True)
class Arm:
    """The result of one mix."""

    seconds: float  # until the last pod was Ready
    cost_per_hour: float  # settled
    cost_at_first: float  # when the last pod was Ready
    classes: dict[str, int]


def run(
    mixes: list[Mix], table: Path, priced: Priced, rounds: int, say: Callable[[str], None]
) -> dict[str, Any]:
    with Lab.temporary("bench-nodes", instant_pods=True) as lab:
        say("lab: control plane, Karpenter, the hook")
        parts.install(lab)
        karpenter.install(lab)
        karpenter.install_hook(lab)
        lab.start_scheduler()
        karpenter.start(lab, table)
        karpenter.add_node_pool(lab)
        karpenter.start_hook(lab, table, {"empty_after_s": 1.0, "architectures": ["amd64", "arm64"]})
        karpenter.wait_until_gating(lab)
        played = [_mix(lab, mix, number, priced, say) for number, mix in enumerate(mixes * rounds)]
    return _figures(played)


def _mix(lab: Lab, mix: Mix, number: int, priced: Priced, say: Callable[[str], None]) -> dict[str, Any]:
    order = (KARPENTER, OURS) if number % 2 == 0 else (OURS, KARPENTER)
    arms = {}
    for arm in order:
        arms[arm] = _play(lab, mix, f"{mix.name}-{number}-{arm}", arm)
        said = arms[arm]
        say(
            f"{mix.name} {arm}: {mix.pods} pods after {said.seconds:.1f} s, "
            f"{said.cost_per_hour:.4f} USD/h ({said.cost_at_first:.4f} at first) on {said.classes}"
        )
    return {"mix": mix.name, "pods": mix.pods, "sizes": [asdict(s) for s in mix.sizes]} | {
        "arms": {name: asdict(a) for name, a in arms.items()},
        "priced": priced(mix),
    }


def _play(lab: Lab, mix: Mix, namespace: str, arm: str) -> Arm:
    labels = {"surgekit.dev/nodes": "enforce"} if arm == OURS else {}
    lab.kube.create("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})
    wait_for_account(lab.kube, namespace)
    arrivals = Arrivals(lab.kube, namespace, ready=is_ready)
    began_s = time.monotonic()
    for index, size in enumerate(mix.sizes):
        lab.kube.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", _deployment(index, size))
    ready = arrivals.wait("ready", mix.pods, 180)
    seconds = max(ready.values()) - began_s
    arrivals.close()
    at_first = sum(_prices(lab).values())
    _settle(lab, namespace, mix.pods, _SETTLED_S if arm == KARPENTER else _OURS_SETTLED_S)
    prices = _prices(lab)
    nodes, _ = lab.kube.list_all("/api/v1/nodes")
    classes = Counter(n["metadata"]["labels"]["node.kubernetes.io/instance-type"] for n in nodes)
    lab.kube.delete(f"/api/v1/namespaces/{namespace}")
    lab.wait_for(lambda: not _prices(lab) and not _claims(lab), f"an empty cluster after {namespace}", 240)
    return Arm(
        round(seconds, 3), round(sum(prices.values()), 6), round(at_first, 6), dict(sorted(classes.items()))
    )


def _deployment(index: int, size: Any) -> dict[str, Any]:
    name = f"kind-{index}"
    requests = {"cpu": f"{size.cpu_millicores}m", "memory": f"{size.memory_mib}Mi"}
    container = {"name": "app", "image": "registry.example/app:1", "resources": {"requests": requests}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": size.count,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
            },
        },
    }


def _prices(lab: Lab) -> dict[str, float]:
    nodes, _ = lab.kube.list_all("/api/v1/nodes")
    return {n["metadata"]["name"]: float(n["metadata"]["labels"][_PRICE]) for n in nodes}


def _claims(lab: Lab) -> list[str]:
    claims, _ = lab.kube.list_all(_CLAIMS)
    return [c["metadata"]["name"] for c in claims]


def _settle(lab: Lab, namespace: str, pods: int, quiet_s: float) -> None:
    """Wait until nodes have not changed for `quiet_s` and every pod is Ready."""
    began_s = since_s = time.monotonic()
    before: Any = None
    while time.monotonic() - since_s < quiet_s:
        found, _ = lab.kube.list_all(f"/api/v1/namespaces/{namespace}/pods")
        now = (sorted(_prices(lab)), sum(is_ready(pod) for pod in found) == pods)
        if now != before or not now[1]:
            before, since_s = now, time.monotonic()
        if time.monotonic() - began_s > _LONGEST_S:
            raise LabError(f"{namespace}: nodes did not settle in {_LONGEST_S:.0f} s")
        time.sleep(0.5)


def _figures(played: list[dict[str, Any]]) -> dict[str, Any]:
    """A mix's ratio is the median of its rounds: a single pod in the scheduler's back-off costs a second."""
    costs_of: dict[str, dict[str, list[float]]] = {}  # baseline -> mix -> a ratio a round
    times_of: dict[str, list[float]] = {}
    for mix in played:
        ours, theirs = mix["arms"][OURS], mix["arms"][KARPENTER]
        baselines = {KARPENTER: theirs["cost_per_hour"], **mix["priced"]}
        mix["cost_ratio"] = {
            name: round(ours["cost_per_hour"] / cost, 4) for name, cost in baselines.items() if cost
        }
        mix["time_ratio"] = round(ours["seconds"] / theirs["seconds"], 4)
        times_of.setdefault(mix["mix"], []).append(mix["time_ratio"])
        for name, ratio in mix["cost_ratio"].items():
            costs_of.setdefault(name, {}).setdefault(mix["mix"], []).append(ratio)
    times = [statistics.median(ratios) for ratios in times_of.values()]
    costs = {name: [statistics.median(r) for r in mixes.values()] for name, mixes in costs_of.items()}
    bound = costs.pop("bound", None)
    return {
        "cost_ratio": {name: _summary(ratios) for name, ratios in costs.items()},
        "time_ratio": {KARPENTER: _summary(times)},
        "cost_over_bound": _summary(bound) if bound else None,
        "mixes": played,
    }


def _summary(ratios: list[float]) -> dict[str, float]:
    """Over the mixes."""
    return rounded(geometric_mean([[ratio] for ratio in ratios])) | {"worst": max(ratios)}
