"""Reads the cluster: six watches, each posting its changes to the loop's inbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from combofunc.in_place_deployment import spec as in_place_deployment
from combofunc.pods.chosen_sizes import ChosenSizeTable, read_requests
from combofunc.pods.cluster import Cluster
from combofunc.pods.pod_table import PodTable
from combofunc.reconcile import spec as combofunc
from combofunc.work_loop import Loop, Reconciler
from surgekit.kube.client import Kube
from surgekit.kube.table import Seen, Table, Unreadable
from surgekit.kube.watch import Watch

__all__ = ["Kept", "Objects", "Sources"]

Json = dict[str, Any]


class Objects(Reconciler, Protocol):
    """A reconciler with its objects."""

    objects: dict[str, Json]

    def drop(self, uid: str) -> None: ...


class Kept(NamedTuple):
    """What the watches keep up to date."""

    cluster: Cluster
    pods: PodTable
    functions: Objects
    deployments: Objects
    chosen_sizes: ChosenSizeTable


class Sources:
    def __init__(self, kube: Kube, unread: Unreadable, loop: Loop, kept: Kept) -> None:
        cluster, pods, functions, deployments, chosen_sizes = kept
        self._pods = _Pods(unread, loop, cluster, pods)
        tables: dict[str, tuple[str, Table[Json]]] = {
            "combofuncs": (combofunc.PATH, _Owners(unread, loop, cluster, functions)),
            "inplacedeployments": (in_place_deployment.PATH, _Owners(unread, loop, cluster, deployments)),
            "pods": ("/api/v1/pods", self._pods),
            "nodes": ("/api/v1/nodes", _Nodes(unread, loop, cluster, functions)),
        }
        self._watches = {
            name: Watch(kube, path, _Posted(table, loop.post)) for name, (path, table) in tables.items()
        }
        # Not required: without a probe every node has the default speed, and prices still differ.
        speeds = _Posted(_Speeds(unread, cluster), loop.post)
        self._speeds = Watch(kube, "/apis/surgekit.dev/v1alpha1/nodespeeds", speeds)
        # Not required either: the Karpenter hook may not be installed.
        plans = _Posted(_NodePlans(unread, loop, chosen_sizes), loop.post)
        self._node_plans = Watch(kube, "/apis/surgekit.dev/v1alpha1/nodeplans", plans, may_be_absent=True)

    def start(self) -> None:
        for watch in (*self._watches.values(), self._speeds, self._node_plans):
            watch.start()

    def stop(self) -> None:
        for watch in (*self._watches.values(), self._speeds, self._node_plans):
            watch.stop()

    def ages_s(self, now_s: float) -> dict[str, float]:
        return {name: watch.age_s(now_s) for name, watch in self._watches.items()}

    # --- the loop's thread ---

    def tell_pod(self, obj: Json, arrival_s: float) -> None:
        """Apply the answer to our own write before the watch shows it."""
        self._pods.apply("MODIFIED", obj, arrival_s)

    def tell_deleted(self, uid: str) -> None:
        self._pods.deleted(uid)


class _Posted:
    """A watch consumer that updates its table in the loop's thread."""

    def __init__(self, table: Table[Json], post: Callable[[Callable[[], None]], None]) -> None:
        self._table, self._post = table, post

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        self._post(lambda: self._table.replace(objects, arrival_s))

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        self._post(lambda: self._table.apply(kind, obj, arrival_s))


class _Raw(Table[Json]):
    """A table of unparsed objects."""

    def read(self, obj: Json) -> Json:
        return obj


class _Owners(_Raw):
    def __init__(self, unreadable: Unreadable, loop: Loop, cluster: Cluster, reconciler: Objects) -> None:
        super().__init__(unreadable)
        self._loop, self._cluster, self._reconciler = loop, cluster, reconciler

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:  # noqa: ARG002
        for uid in self._reconciler.objects.keys() - {obj.uid for obj in there}:
            self._forget(uid)

    def put(self, obj: Seen, says: Json, arrival_s: float) -> None:
        if "deletionTimestamp" in says["metadata"]:
            self.drop(obj, arrival_s)  # the garbage collector deletes its pods
            return
        self._reconciler.objects[obj.uid] = says
        self._cluster.put_owner(obj.namespace, obj.uid, arrival_s)
        self._loop.know(obj.uid, self._reconciler)

    def drop(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        self._forget(obj.uid)

    def _forget(self, uid: str) -> None:
        self._reconciler.drop(uid)
        self._cluster.drop_owner(uid)
        self._loop.forget(uid)


class _Pods(_Raw):
    def __init__(self, unreadable: Unreadable, loop: Loop, cluster: Cluster, pods: PodTable) -> None:
        super().__init__(unreadable)
        self._loop, self._cluster, self._pods = loop, cluster, pods

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:  # noqa: ARG002
        uids = {pod.uid for pod in there}
        for uid in self._cluster.pods - uids:
            self._gone(uid, seen=True)
        for owner in self._pods.keep_only(uids):
            self._loop.touch(owner)

    def put(self, obj: Seen, says: Json, arrival_s: float) -> None:  # noqa: ARG002
        """Apply news from the watch or from our own write, unless newer news is known."""
        if self._pods.is_old(says):
            return
        self._cluster.put_pod(says, arrival_s)
        self._touch(self._pods.put(says))

    def cannot_read(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        """Tell the owner. It changes nothing meanwhile: it would replace a pod that exists."""
        self._touch(self._pods.put_unread(obj.obj))

    def drop(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        self._gone(obj.uid, seen=True)

    def deleted(self, uid: str) -> None:
        """Apply our own deletion; the watch shows it later."""
        self._gone(uid, seen=False)

    def _gone(self, uid: str, seen: bool) -> None:
        self._cluster.drop_pod(uid)
        self._touch(self._pods.drop(uid, seen))

    def _touch(self, owner: str) -> None:
        if owner:
            self._loop.touch(owner)


class _Nodes(_Raw):
    def __init__(self, unreadable: Unreadable, loop: Loop, cluster: Cluster, functions: Objects) -> None:
        super().__init__(unreadable)
        self._loop, self._cluster, self._functions = loop, cluster, functions

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:  # noqa: ARG002
        for name in self._cluster.nodes - {node.name for node in there}:
            self._gone(name)

    def put(self, obj: Seen, says: Json, arrival_s: float) -> None:  # noqa: ARG002
        before = self._cluster.lost(obj.name)
        self._cluster.put_node(says)
        if self._cluster.lost(obj.name) != before:
            self._loop.touch_all(self._functions)  # its pods count no longer, or again

    def drop(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        self._gone(obj.name)

    def _gone(self, name: str) -> None:
        self._cluster.drop_node(name)
        self._loop.touch_all(self._functions)


class _Speeds(_Raw):
    def __init__(self, unreadable: Unreadable, cluster: Cluster) -> None:
        super().__init__(unreadable)
        self._cluster = cluster

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:  # noqa: ARG002
        for name in self._cluster.measured - {speed.name for speed in there}:
            self._cluster.drop_speed(name)

    def put(self, obj: Seen, says: Json, arrival_s: float) -> None:  # noqa: ARG002
        self._cluster.put_speed(says, arrival_s)

    def drop(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        self._cluster.drop_speed(obj.name)


class _NodePlans(_Raw):
    def __init__(self, unreadable: Unreadable, loop: Loop, chosen_sizes: ChosenSizeTable) -> None:
        super().__init__(unreadable)
        self._loop, self._chosen_sizes = loop, chosen_sizes

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:  # noqa: ARG002
        for name in self._chosen_sizes.node_plans - {plan.name for plan in there}:
            self._chosen_sizes.put(name, {})

    def put(self, obj: Seen, says: Json, arrival_s: float) -> None:  # noqa: ARG002
        for uid in self._chosen_sizes.put(obj.name, read_requests(says)):
            self._loop.touch(uid)

    def drop(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        self._chosen_sizes.put(obj.name, {})
