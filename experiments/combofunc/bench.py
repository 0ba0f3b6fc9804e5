"""The live comparison: `surgekit bench combofunc`.

One lab with the real API server, scheduler and controllers. The arms run on it one after the other, in
another order each round. All arms of a round see the same residents, newcomers, speeds and targets, and run
beside the same processes (probe, ComboFunc's controller), whether they use them or not. Readiness is
measured by the arrival of watch events.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.combofunc.arms import LIVE_ARMS, Choices, Setup
from experiments.combofunc.figures import compared, utilisation
from experiments.combofunc.live_arms import NAMESPACE, LiveScaler, live_scaler
from experiments.combofunc.live_view import LiveView
from experiments.combofunc.simulation import Outcome
from experiments.combofunc.track import Track
from experiments.combofunc.workload import FUNCTIONS, MIB, Workload
from experiments.kneescale.plan import add_played, read_played
from kwok import parts
from kwok.errors import TrafficError
from kwok.lab import NODE_MODEL, Lab
from kwok.pods import delete_pods, pod, wait_for_account
from kwok.scenario import Scenario
from surgekit.kube.client import ApiError, Kube
from surgekit.kube.watch import Watch

__all__ = ["Plan", "run"]

TENANTS, NEWCOMERS = "tenants", "newcomers"
_OWNERS = (
    f"/apis/surgekit.dev/v1alpha1/namespaces/{NAMESPACE}/combofuncs",
    f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets",
)
_UTILISATION_TICKS = 5


@dataclass(frozen=True)
class Plan:
    seeds: Sequence[int]  # one a round
    workload: Workload
    arms: tuple[str, ...] = LIVE_ARMS

    def __post_init__(self) -> None:
        if unknown := set(self.arms) - set(LIVE_ARMS):
            raise TrafficError(f"arm: {sorted(unknown)[0]!r} is not one of {', '.join(LIVE_ARMS)}")

    @classmethod
    def full(cls, seeds: Sequence[int], arms: tuple[str, ...], trace: Path | None = None) -> Plan:
        """About two hours with three rounds."""
        return cls(seeds, Workload(minutes=22, trace=trace), arms)

    @classmethod
    def quick(cls, seeds: Sequence[int], arms: tuple[str, ...], trace: Path | None = None) -> Plan:
        """One round: about a quarter of an hour."""
        return cls(seeds[:1], Workload(minutes=6, trace=trace), arms)

    def round_name(self, seed: int) -> str:
        """Names everything that the result depends on, so that a file of results is never used for another
        plan."""
        trace = f"-{self.workload.trace.name}" if self.workload.trace else ""
        return f"combofunc{trace}-{self.workload.nodes}-{self.workload.minutes}min-{seed}"

    @property
    def minutes(self) -> float:
        """The play time, without starting the lab."""
        return len(self.seeds) * len(self.arms) * (self.workload.duration_s + 25) / 60


def run(
    plan: Plan, choices: Mapping[str, Choices], partial: Path | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """Play all arms. Finished arms are read from `partial`, and new ones are appended to it."""
    played: dict[str, dict[str, Any]] = read_played(partial)
    seeds = plan.seeds
    missing = [
        (seed, arm)
        for seed in seeds
        for arm in (*plan.arms[seed % len(plan.arms) :], *plan.arms[: seed % len(plan.arms)])
        if arm not in played.get(plan.round_name(seed), {})
    ]
    if missing:
        with Lab.temporary("combofunc") as lab:
            bench = _Bench(lab, plan.workload, choices, say)
            for seed, of_round in itertools.groupby(missing, key=lambda m: m[0]):
                bench.furnish(seed)
                for _, arm in of_round:
                    outcome = asdict(bench.play(arm, seed))
                    played.setdefault(plan.round_name(seed), {})[arm] = outcome
                    add_played(partial, plan.round_name(seed), {arm: outcome})
            bench.close()
    outcomes = {arm: [_outcome(played[plan.round_name(s)][arm]) for s in seeds] for arm in plan.arms}
    return compared(outcomes) | {
        "simulated": False,
        "seeds": list(seeds),
        "rounds": {arm: [asdict(o) for o in rounds] for arm, rounds in outcomes.items()},
        "sizes": {a: {f: c.label(FUNCTIONS[f]) for f, c in of.items()} for a, of in choices.items()},
        "utilisation": {arm: utilisation(rounds) for arm, rounds in outcomes.items()},
    }


def _outcome(stored: Mapping[str, Any]) -> Outcome:
    tracks = {
        name: Track(**{key: value for key, value in track.items() if not key.startswith("_")})
        for name, track in stored["tracks"].items()
    }
    return Outcome(tracks, stored["cpu_utilisation"], stored["memory_utilisation"])


class _Bench:
    def __init__(
        self, lab: Lab, workload: Workload, choices: Mapping[str, Choices], say: Callable[[str], None]
    ) -> None:
        self._lab, self._workload, self._choices, self._say = lab, workload, choices, say
        say("lab: control plane, nodes, scheduler")
        parts.install(lab)
        parts.install_combofunc(lab)
        lab.add_nodes(
            workload.nodes,
            cpu=f"{workload.node_cpu_millicores}m",
            memory=f"{workload.node_memory_bytes // MIB}Mi",
            pods=workload.node_pods,
        )
        for name in (NAMESPACE, TENANTS, NEWCOMERS):
            lab.kube.create("/api/v1/namespaces", {"metadata": {"name": name}})
            wait_for_account(lab.kube, name)
        lab.start_scheduler()
        self._view = LiveView(workload)
        self._watch = Watch(lab.kube, "/api/v1/pods", self._view).start()
        if not self._watch.synced.wait(30):
            raise TimeoutError("no list of the pods within 30 s")

    def close(self) -> None:
        self._watch.stop()

    def furnish(self, seed: int) -> None:
        """Create the residents of a round, Ready before anything is measured."""
        kube = self._lab.kube
        self._lab.start_node_model(Scenario.equal(tau_create_s=0.01))
        delete_pods(kube, TENANTS)
        bodies = [
            pod(r.name, f"{r.cpu_millicores}m", f"{r.memory_bytes // MIB}Mi", nodeName=f"node-{r.node}")
            for r in self._workload.residents(seed)
        ]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda body: kube.create(f"/api/v1/namespaces/{TENANTS}/pods", body), bodies))

        def all_run() -> bool:
            pods, _ = kube.list_all(f"/api/v1/namespaces/{TENANTS}/pods")
            return all(p["status"].get("phase") == "Running" for p in pods)

        self._lab.wait_for(all_run, "residents", 120)
        self._lab.stop(NODE_MODEL)

    def play(self, arm: str, seed: int) -> Outcome:
        self._say(f"round {seed}: {arm}, {self._workload.duration_s:.0f} s")
        lab = self._lab
        parts.start_probe(lab)
        parts.start_combofunc(lab)
        lab.start_node_model(self._workload.scenario(seed))
        scalers = {
            name: live_scaler(
                Setup(arm, seed, self._choices.get(arm, {}).get(name)), function, lab.kube, self._view
            )
            for name, function in FUNCTIONS.items()
        }
        newcomers = _Newcomers(lab.kube, self._workload, seed)
        self._view.begin()
        try:
            self._follow(scalers, seed)
        finally:
            outcome = self._view.end()
            newcomers.stop()
            self._clear()
        each = (f"{n} {t.mean_scaling_s:.2f} s" for n, t in outcome.tracks.items())
        self._say(f"round {seed}: {arm}: " + ", ".join(each))
        return outcome

    def _follow(self, scalers: Mapping[str, LiveScaler], seed: int) -> None:
        """Pass targets to each scaler in time; a slow scaler delays no other."""
        due = [
            (at_s, name, target)
            for name, targets in self._workload.targets(seed).items()
            for at_s, target in targets.changes
        ]
        due += [(float(tick), "", tick) for tick in range(1, int(self._workload.duration_s) + 1)]
        began_s = time.monotonic()
        lanes = {name: ThreadPoolExecutor(1, thread_name_prefix=name) for name in scalers}
        told: list[Future[None]] = []
        for at_s, name, value in sorted(due):
            time.sleep(max(began_s + at_s - time.monotonic(), 0.0))
            if name:
                self._view.aim(name, value)
                told.append(lanes[name].submit(scalers[name].aim, value))
            else:
                self._view.sample(with_utilisation=value % _UTILISATION_TICKS == 0)
                told += [lanes[n].submit(scaler.look) for n, scaler in scalers.items()]
        for lane in lanes.values():
            lane.shutdown()
        for answer in told:
            answer.result()  # re-raises its exception

    def _clear(self) -> None:
        """Delete what the arm created, so that the next finds only the residents."""
        lab = self._lab
        for path in _OWNERS:
            for owner in lab.kube.list_all(path)[0]:
                with suppress(ApiError):  # a ReplicaSet goes with its Deployment
                    lab.kube.delete(f"{path}/{owner['metadata']['name']}", propagationPolicy="Background")
        for namespace in (NAMESPACE, NEWCOMERS):
            delete_pods(lab.kube, namespace)
        for part in ("combofunc", "probe", NODE_MODEL):
            lab.stop(part)
        lab.kube.delete("/apis/surgekit.dev/v1alpha1/nodespeeds")


class _Newcomers:
    """Other tenants' pods that come and go, until stopped."""

    def __init__(self, kube: Kube, workload: Workload, seed: int) -> None:
        self._kube, self._stopping = kube, threading.Event()
        self._due = [(n.at_s, n.name, n.node) for n in workload.newcomers(seed)]
        heapq.heapify(self._due)
        self._lifetime_s = workload.newcomer_lifetime_s
        self._thread = threading.Thread(target=self._run, name="newcomers", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(30)

    def _run(self) -> None:
        began_s, path = time.monotonic(), f"/api/v1/namespaces/{NEWCOMERS}/pods"
        while self._due:
            at_s, name, node = heapq.heappop(self._due)
            if self._stopping.wait(max(began_s + at_s - time.monotonic(), 0.0)):
                return
            if node < 0:
                with suppress(ApiError):
                    self._kube.delete(f"{path}/{name}", gracePeriodSeconds=0)
                continue
            self._kube.create(path, pod(name, "0", "0", nodeName=f"node-{node}"))
            heapq.heappush(self._due, (at_s + self._lifetime_s, name, -1))  # -1: it is deleted
