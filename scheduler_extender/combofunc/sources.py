"""What is read of the cluster: five watches, each leaving its news in the loop's inbox."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from scheduler_extender.combofunc import spec as combofunc
from scheduler_extender.function_pods.cluster import Cluster
from scheduler_extender.function_pods.loop import Kind, Loop
from scheduler_extender.function_pods.pod_table import PodTable
from scheduler_extender.in_place_deployment import spec as in_place_deployment
from surgekit.kube import Kube
from surgekit.watch import Watch

__all__ = ["Objects", "Sources"]

Json = dict[str, Any]


class Objects(Kind, Protocol):
    """A kind with the objects it looks at."""

    objects: dict[str, Json]

    def drop(self, uid: str) -> None: ...


class Sources:
    def __init__(
        self,
        kube: Kube,
        loop: Loop,
        cluster: Cluster,
        pods: PodTable,
        functions: Objects,
        deployments: Objects,
    ) -> None:
        self._loop, self._cluster, self._pods = loop, cluster, pods
        self._functions = functions
        self._watches = {
            "combofuncs": Watch(kube, combofunc.PATH, self._consumer(_Owners(loop, functions))),
            "inplacedeployments": Watch(
                kube, in_place_deployment.PATH, self._consumer(_Owners(loop, deployments))
            ),
            "pods": Watch(kube, "/api/v1/pods", self._consumer(_Pods(self))),
            "nodes": Watch(kube, "/api/v1/nodes", self._consumer(_Nodes(self))),
        }
        # Without a probe every node gets the default speed, and the price still counts.
        self._speeds = Watch(kube, "/apis/surgekit.dev/v1alpha1/nodespeeds", self._consumer(_Speeds(cluster)))

    def start(self) -> None:
        for watch in (*self._watches.values(), self._speeds):
            watch.start()

    def stop(self) -> None:
        for watch in (*self._watches.values(), self._speeds):
            watch.stop()

    def ages_s(self, now_s: float) -> dict[str, float]:
        return {name: watch.age_s(now_s) for name, watch in self._watches.items()}

    def _consumer(self, table: _Table) -> _Consumer:
        return _Consumer(table, self._loop.post)

    # --- the loop's thread ---

    def put_pod(self, obj: Json, arrival_s: float) -> None:
        """Of a watch, or of an answer to our own write: whichever is newer holds."""
        if self._pods.is_old(obj):
            return
        self._cluster.put_pod(obj, arrival_s)
        if owner := self._pods.put(obj):
            self._loop.touch(owner)

    def drop_pod(self, uid: str, seen: bool) -> None:
        self._cluster.drop_pod(uid)
        if owner := self._pods.drop(uid, seen):
            self._loop.touch(owner)

    def keep_pods(self, uids: set[str]) -> None:
        for uid in self._cluster.pods - uids:
            self.drop_pod(uid, seen=True)
        for owner in self._pods.keep_only(uids):
            self._loop.touch(owner)

    def put_node(self, obj: Json) -> None:
        name = obj["metadata"]["name"]
        before = self._cluster.lost(name)
        self._cluster.put_node(obj)
        if self._cluster.lost(name) != before:
            self._loop.touch_all(self._functions)  # what runs there counts no more, or again

    def drop_node(self, name: str) -> None:
        self._cluster.drop_node(name)
        self._loop.touch_all(self._functions)

    def keep_nodes(self, names: set[str]) -> None:
        for name in self._cluster.nodes - names:
            self.drop_node(name)


class _Table(Protocol):
    """Takes the news of one collection, in the loop's thread."""

    def put(self, obj: Json, arrival_s: float) -> None: ...

    def drop(self, obj: Json) -> None: ...

    def keep(self, objects: list[Json]) -> None:
        """What is not among these is gone."""


class _Consumer:
    """Of a watch: hands its news over."""

    def __init__(self, table: _Table, post: Callable[[Callable[[], None]], None]) -> None:
        self._table, self._post = table, post

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        def take_in() -> None:
            self._table.keep(objects)
            for obj in objects:
                self._table.put(obj, arrival_s)

        self._post(take_in)

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        if kind == "DELETED":
            self._post(lambda: self._table.drop(obj))
        else:
            self._post(lambda: self._table.put(obj, arrival_s))


class _Owners:
    def __init__(self, loop: Loop, kind: Objects) -> None:
        self._loop, self._kind = loop, kind

    def put(self, obj: Json, arrival_s: float) -> None:  # noqa: ARG002
        uid = obj["metadata"]["uid"]
        if "deletionTimestamp" in obj["metadata"]:
            self.drop(obj)  # its pods are the garbage collector's now
            return
        self._kind.objects[uid] = obj
        self._loop.know(uid, self._kind)

    def drop(self, obj: Json) -> None:
        self._forget(obj["metadata"]["uid"])

    def keep(self, objects: list[Json]) -> None:
        for uid in self._kind.objects.keys() - {obj["metadata"]["uid"] for obj in objects}:
            self._forget(uid)

    def _forget(self, uid: str) -> None:
        self._kind.drop(uid)
        self._loop.forget(uid)


class _Pods:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def put(self, obj: Json, arrival_s: float) -> None:
        self._sources.put_pod(obj, arrival_s)

    def drop(self, obj: Json) -> None:
        self._sources.drop_pod(obj["metadata"]["uid"], seen=True)

    def keep(self, objects: list[Json]) -> None:
        self._sources.keep_pods({obj["metadata"]["uid"] for obj in objects})


class _Nodes:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def put(self, obj: Json, arrival_s: float) -> None:  # noqa: ARG002
        self._sources.put_node(obj)

    def drop(self, obj: Json) -> None:
        self._sources.drop_node(obj["metadata"]["name"])

    def keep(self, objects: list[Json]) -> None:
        self._sources.keep_nodes({obj["metadata"]["name"] for obj in objects})


class _Speeds:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def put(self, obj: Json, arrival_s: float) -> None:
        self._cluster.put_speed(obj, arrival_s)

    def drop(self, obj: Json) -> None:
        self._cluster.drop_speed(obj["metadata"]["name"])

    def keep(self, objects: list[Json]) -> None:
        for name in self._cluster.measured - {obj["metadata"]["name"] for obj in objects}:
            self._cluster.drop_speed(name)
