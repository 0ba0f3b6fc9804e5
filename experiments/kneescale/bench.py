"""The live comparison: `surgekit bench kneescale`.

One lab. Several arms run at a time, each in its own namespace and on its own nodes, with the five functions
side by side. All arms of a load see the same clients. The knee searches run in the real controller with a
KneePolicy for each function, the HPAs are the stock HPA on metrics-server, and the bench itself applies
OpenFaaS's rule. Score, throughput and latency come from the load generator. When an arm's function has used
up its budget, its replicas are stopped, as in the paper, whatever scaled them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.client_trace import ClientTrace
from experiments.kneescale import controller
from experiments.kneescale.arm import Arm, namespace
from experiments.kneescale.figures import figures
from experiments.kneescale.plan import SAMPLING_S, Batch, Plan, add_played, read_played
from kwok import metrics_server, parts, prometheus
from kwok.lab import Lab
from kwok.traffic.functions import CLUSTER, FUNCTIONS
from kwok.traffic.live import Traffic, add_function_nodes, start_traffic

__all__ = ["run"]

_OPENFAAS_LOOK_S = 2.5


def run(plan: Plan, partial: Path | None, say: Callable[[str], None]) -> dict[str, Any]:
    """Play all batches. Finished ones are read from `partial`, and new ones are appended to it."""
    played = read_played(partial)
    missing = plan.missing(played)
    if missing:
        with Lab.temporary("kneescale", instant_pods=True, time_factor=plan.time_factor) as lab:
            say("lab: control plane, metrics-server, Prometheus, HAProxy, the controller")
            bench = _Bench(lab, plan, missing, say)
            for batch in missing:
                arms = bench.play(batch)
                name = plan.round_name(batch.load, batch.seed)
                played.setdefault(name, {}).update(arms)
                add_played(partial, name, arms)
    return figures(played, plan)


class _Bench:
    def __init__(self, lab: Lab, plan: Plan, batches: Sequence[Batch], say: Callable[[str], None]) -> None:
        self._lab, self._plan, self._say = lab, plan, say
        self._factor = plan.time_factor
        parts.install(lab)
        parts.install_kneescale(lab)
        kubelet_port = lab.free_port()
        self._selectors = {
            (slot, name): add_function_nodes(lab, f"{name}-{slot}", CLUSTER, kubelet_port)
            for slot in range(max(len(batch.arms) for batch in batches))
            for name in FUNCTIONS
        }
        lab.start_scheduler()
        arms = dict.fromkeys(arm for batch in batches for arm in batch.arms)
        self._traffic: Traffic = start_traffic(
            lab, FUNCTIONS, namespaces=[namespace(arm) for arm in arms], kubelet_port=kubelet_port
        )
        metrics_server.start(lab, max(15.0 / self._factor, 10.0))
        self._prometheus = prometheus.start(
            lab,
            {
                "gateway": [f"127.0.0.1:{self._traffic.gateway_metrics_port}"],
                "functions": [f"127.0.0.1:{self._traffic.function_metrics_port}"],
            },
        )
        parts.start_kneescale(
            lab,
            {"prometheus_url": f"http://127.0.0.1:{self._prometheus.port}", "scrape_interval_s": 1.0},
            module=controller.__name__,
        )

    def play(self, batch: Batch) -> dict[str, Any]:
        load = batch.load
        self._say(f"{load.name} {batch.seed}: {', '.join(batch.arms)}")
        plans = load.clients(list(FUNCTIONS), self._plan.data, batch.seed)
        traces = {name: trace.compressed(self._factor) for name, trace in plans.items()}
        playing = [Arm(self, arm, load, slot) for slot, arm in enumerate(batch.arms)]
        for arm in playing:
            arm.begin()
        began_s = time.time()
        interval_s = SAMPLING_S / self._factor
        try:
            self._set_clients(playing, traces, 0.0)
            before = self._traffic.sample()
            for tick in range(1, load.intervals + 1):
                self._until(playing, began_s + tick * interval_s)
                seen = self._traffic.sample()
                for arm in playing:
                    arm.note(before, seen)
                before = seen
                self._set_clients(playing, traces, tick * interval_s)
        finally:
            for arm in playing:
                arm.end()
        for arm in playing:
            arm.note_latencies(began_s)
            self._say(
                f"  {arm.name}: " + ", ".join(f"{n} {t.performance:.0f}" for n, t in arm.tracks.items())
            )
        return {arm.name: {name: asdict(track) for name, track in arm.tracks.items()} for arm in playing}

    def _until(self, playing: Sequence[Arm], at_s: float) -> None:
        while (left_s := at_s - time.time()) > 0:
            time.sleep(min(left_s, _OPENFAAS_LOOK_S / self._factor))
            for arm in playing:
                arm.look(time.time())

    def _set_clients(self, playing: Sequence[Arm], traces: Mapping[str, ClientTrace], at_s: float) -> None:
        for arm in playing:
            for name, trace in traces.items():
                arm.clients(name, trace.clients_at(at_s))

    # As the Stage of the arms.
    @property
    def lab(self) -> Lab:
        return self._lab

    @property
    def traffic(self) -> Traffic:
        return self._traffic

    @property
    def time_factor(self) -> float:
        return self._factor

    def selector(self, slot: int, function: str) -> dict[str, str]:
        return self._selectors[slot, function]
