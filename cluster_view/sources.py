"""Watch what is shown. Watch threads read objects into small facts; `apply` gives them to the state.

Nothing is written, not even an Event about an object that cannot be read: the account may only list and
watch.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence, Set
from functools import partial
from typing import Any, TypeVar

import structlog

from cluster_view.decisions import read_event, read_plan
from cluster_view.functions import READERS
from cluster_view.readers import read_node, read_pod, read_speed
from cluster_view.state import State
from surgekit.kube.api_path import Resource
from surgekit.kube.client import Kube
from surgekit.kube.events import EventRecorder
from surgekit.kube.table import ObjectTable, Seen, Unreadable, by_name, by_uid
from surgekit.kube.watch import Watch

__all__ = ["RESOURCES", "Sources"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
_OURS = "surgekit.dev/v1alpha1"
_FUNCTIONS = {
    "ComboFunc": "combofuncs",
    "KneePolicy": "kneepolicies",
    "BurstFunction": "burstfunctions",
    "DistributedContainer": "distributedcontainers",
}
_EVENTS = Resource("events.k8s.io/v1", "events")
# All that is asked of the API server, and listed in manifests/view/rbac.yaml.
RESOURCES = (
    Resource("v1", "nodes"),
    Resource("v1", "pods"),
    Resource(_OURS, "nodespeeds"),
    Resource(_OURS, "nodeplans"),
    *(Resource(_OURS, plural) for plural in _FUNCTIONS.values()),
    _EVENTS,
)
# Most Events of a cluster are these components', and all of them say what objects say as well.
_LOUD = ("kubelet", "default-scheduler", "replicaset-controller", "deployment-controller", "job-controller")
_ABOUT_ENOUGH = ",".join(f"reportingController!={name}" for name in _LOUD)
_GATHER_S = 0.1  # a page may be that much later
_EVENTS_S = 3600.0  # older Events are no news
_MOST_EVENTS = 5_000


class _Silent(EventRecorder):
    """Says of everything that it was told, so that the table logs it; posts nothing."""

    def post(self, *_: Any, **__: Any) -> bool:
        return True


class Sources:
    def __init__(self, kube: Kube, state: State, price_labels: Sequence[str]) -> None:
        self._state, self._inbox = state, deque[Callable[[], None]]()
        self._unreadable = Unreadable(_Silent(kube, "view"))
        self._seen_events: OrderedDict[str, None] = OrderedDict()
        nodes = self._table(
            partial(read_node, price_labels=price_labels), by_name,
            keep=state.keep_nodes, put=lambda _, node, __: state.put_node(node), drop=state.drop_node,
        )  # fmt: skip
        pods = self._table(read_pod, _by_path, keep=state.keep_pods, put=self._put_pod, drop=state.drop_pod)
        speeds = self._table(
            read_speed, by_name, keep=state.keep_speeds, put=self._put_speed, drop=state.drop_speed
        )
        plans = self._table(
            read_plan, by_name,
            keep=state.keep_plans, put=lambda _, plan, at_s: state.put_plan(plan, at_s), drop=state.drop_plan,
        )  # fmt: skip
        events = self._table(
            read_event, by_uid, keep=lambda _: None, put=self._put_event, drop=lambda _: None
        )
        core = RESOURCES[0].path(), RESOURCES[1].path()
        self._required = {
            "nodes": Watch(kube, core[0], nodes, gather_s=_GATHER_S),
            "pods": Watch(kube, core[1], pods, gather_s=_GATHER_S),
        }
        self._optional = [
            Watch(kube, Resource(_OURS, "nodespeeds").path(), speeds, may_be_absent=True, gather_s=_GATHER_S),
            Watch(kube, Resource(_OURS, "nodeplans").path(), plans, may_be_absent=True),
            *(self._functions(kube, kind, plural) for kind, plural in _FUNCTIONS.items()),
            Watch(kube, _EVENTS.path(), events, gather_s=_GATHER_S, fieldSelector=_ABOUT_ENOUGH),
        ]

    def _functions(self, kube: Kube, kind: str, plural: str) -> Watch:
        state = self._state
        table = self._table(
            READERS[kind],
            partial(_function_key, kind),
            keep=partial(state.keep_functions, kind),
            put=lambda _, function, at_s: state.put_function(function, at_s),
            drop=state.drop_function,
        )
        return Watch(kube, Resource(_OURS, plural).path(), table, may_be_absent=True, gather_s=_GATHER_S)

    def start(self) -> None:
        for watch in (*self._required.values(), *self._optional):
            watch.start()

    def stop(self) -> None:
        for watch in (*self._required.values(), *self._optional):
            watch.stop()

    def apply(self) -> None:
        """Apply what came in. Call it from the thread that owns the state."""
        while self._inbox:
            try:
                self._inbox.popleft()()
            except Exception:  # whatever one object or answer says, the others are taken
                log.exception("change not taken")

    def post(self, change: Callable[[], None]) -> None:
        """Have the thread that owns the state make this change."""
        self._inbox.append(change)

    def wait(self, seconds: float) -> list[str]:
        """Wait until everything was listed once; return which of nodes and pods was not.

        What may be absent, or not allowed, is waited for no longer than for these.
        """
        until_s = time.monotonic() + seconds
        for watch in (*self._required.values(), *self._optional):
            watch.synced.wait(max(until_s - time.monotonic(), 0.0))
            until_s = until_s if watch in self._required.values() else min(until_s, time.monotonic() + 1.0)
        return [name for name, watch in self._required.items() if not watch.synced.is_set()]

    def _table(
        self,
        read: Callable[[Json], T],
        key: Callable[[Seen], str],
        *,
        keep: Callable[[Set[str]], None],
        put: Callable[[str, T, float], None],
        drop: Callable[[str], None],
    ) -> ObjectTable[str, T]:
        append = self._inbox.append
        return ObjectTable(
            self._unreadable,
            read,
            key=key,
            on_list=lambda keys, _: append(partial(keep, keys)),
            on_put=lambda key, facts, arrival_s: append(partial(put, key, facts, _unix(arrival_s))),
            on_drop=lambda key, _: append(partial(drop, key)),
        )

    # --- in the thread that owns the state ---

    def _put_pod(self, key: str, pod: Any, at_s: float) -> None:
        if pod is None:
            self._state.drop_pod(key)
        else:
            self._state.put_pod(pod, at_s)

    def _put_speed(self, node: str, speed: Any, at_s: float) -> None:
        if speed is None:
            self._state.drop_speed(node)
        else:
            self._state.put_speed(speed, at_s)

    def _put_event(self, uid: str, told: Any, at_s: float) -> None:
        """Each once, also when a watch begins anew."""
        if told is None or uid in self._seen_events or at_s - (told.at_s or at_s) > _EVENTS_S:
            return
        self._seen_events[uid] = None
        if len(self._seen_events) > _MOST_EVENTS:
            self._seen_events.popitem(last=False)
        self._state.put_event(told, at_s)


def _by_path(obj: Seen) -> str:
    return f"{obj.namespace}/{obj.name}"


def _function_key(kind: str, obj: Seen) -> str:
    return f"{kind}/{obj.namespace}/{obj.name}"


def _unix(arrival_s: float) -> float:
    return time.time() - (time.monotonic() - arrival_s)
