"""How fast is kube-scheduler with the extender? `surgekit bench extender`.

All pods wait before the scheduler starts, so the scheduler is the bottleneck. Three arms alternate on
one lab, round by round, in a rotating order: stock; the extender with pods that opted in; the extender
registered, with pods that did not. The configurations differ in `extenders` only, and the extender's
process is down while stock is measured. Latencies come from the extender's own histogram in /metrics.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from experiments.arrivals import Arrivals, is_bound
from experiments.histogram import quantile, read_buckets
from experiments.intervals import median, rounded
from kwok import parts
from kwok.lab import Lab
from kwok.pods import create_pods, delete_namespace

__all__ = ["Extent", "run"]

ARMS = ("stock", "extender", "outside")
# Small enough that no node fills up: the question is speed, not fit.
POD = {"cpu": "10m", "memory": "16Mi"}
LATENCY = "surgekit_extender_prioritize_seconds"


@dataclass(frozen=True)
class Extent:
    """How much is measured, and how the extender is registered."""

    nodes: int
    pods: int
    rounds: int
    weight: int
    probe: bool = False  # run the probe as well, in every arm


def run(extent: Extent, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure all rounds and return the figures; `say` reports progress."""
    nodes, pods, rounds = extent.nodes, extent.pods, extent.rounds
    rates: dict[str, list[float]] = {arm: [] for arm in ARMS}
    latency_s: Counter[float] = Counter()  # the histogram's buckets, all rounds together
    with Lab.temporary("bench-extender", instant_pods=True) as lab:
        parts.install(lab)
        say(f"{nodes} nodes")
        lab.add_nodes(nodes, cpu="32", memory="256Gi", pods=1000, timeout_s=600)
        _wait_for_leases(lab, nodes)
        if extent.probe:
            parts.start_probe(lab)
        for number in range(rounds):
            for arm in (*ARMS[number % 3 :], *ARMS[: number % 3]):
                rate = _measure(lab, arm, f"{arm}-{number}", extent, latency_s)
                rates[arm].append(rate)
                say(f"round {number + 1}/{rounds} {arm}: {rate:.0f} pods/s")
    return {
        "nodes": nodes,
        "pods": pods,
        "rounds": rounds,
        "stock_pods_per_s": round(statistics.median(rates["stock"]), 1),
        "ratio": _ratio(rates, "extender"),
        "outside_ratio": _ratio(rates, "outside"),
        "prioritize_ms_p50": round(quantile(latency_s, 0.5) * 1e3, 3),
        "prioritize_ms_p99": round(quantile(latency_s, 0.99) * 1e3, 3),
        "rates": {arm: [round(v, 1) for v in values] for arm, values in rates.items()},
    }


def _wait_for_leases(lab: Lab, nodes: int) -> None:
    """Wait for each node's first lease, which KWOK creates for half a minute after 5,000 nodes are Ready."""
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    deadline = time.monotonic() + 300
    while len(lab.kube.list_all(path)[0]) < nodes and time.monotonic() < deadline:
        time.sleep(2)


def _ratio(rates: dict[str, list[float]], arm: str) -> dict[str, float]:
    """The median of the rounds' ratios: other load on the machine slows both arms of a round."""
    return rounded(median([ours / stock for ours, stock in zip(rates[arm], rates["stock"], strict=True)]))


def _measure(lab: Lab, arm: str, namespace: str, extent: Extent, latency_s: Counter[float]) -> float:
    """Pods bound a second in one arm of one round; adds the extender's latencies to `latency_s`."""
    pods = extent.pods
    labels = {} if arm == "outside" else {"surgekit.dev/placement": "enforce"}
    lab.kube.create("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})
    create_pods(lab.kube, namespace, pods, **POD)
    with _configuration(lab, arm, extent.weight) as (config, extender):
        arrivals = Arrivals(lab.kube, namespace, bound=is_bound)
        time.sleep(2)  # let controllers and caches settle after the creation
        lab.start_scheduler(config)
        times = sorted(arrivals.wait("bound", pods, timeout_s=600).values())
        arrivals.close()
        lab.stop_scheduler()
        if arm == "extender":
            assert extender is not None  # noqa: S101 - the arm's own configuration
            buckets = read_buckets(extender.metrics(), LATENCY)
            if (asked := buckets[float("inf")]) < pods * 0.99:
                raise RuntimeError(f"the scheduler asked the extender for {asked} of {pods} pods only")
            latency_s.update(buckets)
    delete_namespace(lab.kube, namespace)
    return (len(times) - 1) / (times[-1] - times[0])


@contextmanager
def _configuration(
    lab: Lab, arm: str, weight: int
) -> Iterator[tuple[dict[str, Any], parts.ExtenderPart | None]]:
    if arm == "stock":
        yield {}, None
        return
    extender = parts.start_extender(lab)
    try:
        yield {"extenders": [extender.scheduler_entry(weight)]}, extender
    finally:
        lab.stop(extender.name)
