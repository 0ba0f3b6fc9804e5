"""One ComboFunc in a small world, reconciled again and again as by the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster_model.contention import CONTENTION
from combofunc.actuator import carry_out
from combofunc.planner import planning
from combofunc.planner.model import Planner
from combofunc.pods.cluster import Cluster
from combofunc.pods.pod import FunctionPod
from combofunc.pods.pod_table import PodTable
from combofunc.reconcile.decision import FunctionUpdate, decide
from combofunc.reconcile.function_state import FunctionState, Observation
from combofunc.reconcile.node_demand import ChosenSizes
from combofunc.reconcile.plan_result import plan_at_once
from combofunc.reconcile.spec import ComboFunc, read
from combofunc.settings import Settings
from surgekit.decision import Decision
from tests.combofunc.pods.world import World

Json = dict[str, Any]
SIZES = [
    {"name": "small", "cpu": "500m", "memory": "512Mi", "concurrency": 1},
    {"name": "medium", "cpu": "1", "memory": "1Gi", "concurrency": 3},
    {"name": "large", "cpu": "2", "memory": "2Gi", "concurrency": 8},
]


def combofunc(target: int | None = None, image: str = "app:1", **spec: Any) -> Json:
    containers = [{"name": "app", "image": image}]
    times = {"drain": "1s", "keepWarm": "0s"}
    body: Json = {"template": {"spec": {"containers": containers}}, "sizes": SIZES} | times | spec
    if target is not None:
        body["targetConcurrency"] = target
    return {
        "metadata": {"name": "video", "namespace": "shop", "uid": "function", "generation": 1},
        "spec": body,
    }


class FunctionInWorld:
    def __init__(self, world: World, planner: Planner = planning.plan, **settings: Any) -> None:
        self.world, self.planner, self.settings = world, planner, Settings(**settings)
        self.obj = combofunc(0)
        self.measured: Mapping[str, float] = {}
        self.chosen: ChosenSizes = {}
        self.restart()

    def restart(self) -> None:
        """Another replica leads: all state is lost."""
        self.state = FunctionState()
        settings = self.settings
        self.cluster = Cluster(
            settings.default_tau_create_s, settings.default_tau_resize_s, settings.default_image_pull_s,
            settings.creation_limit_s, CONTENTION[settings.contention],
        )  # fmt: skip
        self.table = PodTable()
        self.cluster.put_owner("shop", "function", 0.0)
        self.watch()

    def watch(self) -> None:
        """Show the world's nodes and pods to the tables."""
        for node in self.world.nodes.values():
            self.cluster.put_node(node)
        there = {pod["metadata"]["uid"] for pod in self.world.pods.values()}
        for uid in self.cluster.pods - there:
            self.cluster.drop_pod(uid)
        self.table.keep_only(there)
        for pod in self.world.pods.values():
            self._see(pod)

    def _see(self, pod: Json) -> None:
        if not self.table.is_old(pod):
            self.cluster.put_pod(pod, self.world.now_s)
            self.table.put(pod)

    @property
    def function(self) -> ComboFunc:
        return read(self.obj)

    @property
    def pods(self) -> list[FunctionPod]:
        return self.table.of("shop", "function")

    @property
    def ready(self) -> int:
        return sum(pod.concurrency for pod in self.pods if pod.serves)

    @property
    def sizes(self) -> Mapping[str, str]:
        """Size of each pod that stays, by name."""
        return {pod.name: pod.size for pod in self.pods if pod.live and pod.draining_since_s is None}

    def wants(self, target: int | None, **spec: Any) -> None:
        generation = self.obj["metadata"]["generation"] + 1
        self.obj = combofunc(target, **spec)
        self.obj["metadata"]["generation"] = generation

    def observed(self, **also_seen: Any) -> Observation:
        function = self.function
        target = function.target
        if function.replicas is not None:
            target = sum(s.concurrency * function.replicas.get(s.name, 0) for s in function.sizes)
        also_seen = {"chosen_sizes": self.chosen} | also_seen
        return Observation(function, target, self.pods, self.world.now_s, self.measured, **also_seen)

    def decide(self, **also_seen: Any) -> Decision[FunctionUpdate]:
        seen = self.observed(**also_seen)
        return decide(seen, self.state, self.cluster, plan_at_once(self.planner), self.settings)

    def reconcile(self) -> FunctionUpdate:
        """Decide and carry out; the API server's answers count at once."""
        update = self.decide().action
        self.state = update.state
        for action in update.actions:
            done = carry_out(self.world, "shop", action)
            if done.pod is not None:
                self._see(done.pod)
            elif done.gone:
                self.cluster.drop_pod(done.gone)
                self.table.drop(done.gone, seen=False)
        return update

    def run(self, seconds: float, step_s: float = 0.1) -> FunctionUpdate:
        update = self.reconcile()
        for _ in range(round(seconds / step_s)):
            self.world.tick(step_s)
            self.watch()
            update = self.reconcile()
        return update
