"""Which pod is on which node, of which workload and of which function. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from itertools import islice
from typing import TypeVar

from cluster_view.facts import FunctionFacts, PodFacts, Workload

__all__ = ["Membership"]

# A pod is shown with one function: the first that holds.
_ORDER = ("ComboFunc", "BurstFunction", "KneePolicy")
# DistributedContainers of a namespace that pods are compared with; the controller takes as many
# (limit_allocator/settings.py, most_per_namespace).
_MOST_SELECTORS = 20
_NONE: frozenset[str] = frozenset()
K = TypeVar("K")


class Membership:
    def __init__(self) -> None:
        self._places: dict[str, tuple[str, Workload | None, str]] = {}  # of each pod, as it is filed below
        self._at: defaultdict[str, set[str]] = defaultdict(set)  # pods by node
        self._on: defaultdict[Workload, set[str]] = defaultdict(set)  # pods by workload
        self._in: defaultdict[str, set[str]] = defaultdict(set)  # pods by namespace
        self._scaling: defaultdict[Workload, dict[str, FunctionFacts]] = defaultdict(dict)
        self._selecting: defaultdict[str, dict[str, FunctionFacts]] = defaultdict(dict)  # by namespace
        self._functions: dict[str, FunctionFacts] = {}

    def pods_at(self, node: str) -> Set[str]:
        return self._at.get(node, _NONE)

    def pods_on(self, workload: Workload | None) -> Set[str]:
        return self._on.get(workload, _NONE) if workload else _NONE

    def functions_on(self, workload: Workload | None) -> Set[str]:
        return self._scaling.get(workload, {}).keys() if workload else _NONE

    def function_of(self, pod: PodFacts) -> str | None:
        if pod.workload and (scaling := self._scaling.get(pod.workload)):
            return min(scaling, key=lambda key: (_ORDER.index(scaling[key].kind), key))
        selecting = islice(self._selecting.get(pod.namespace, {}).values(), _MOST_SELECTORS)
        return next((f.key for f in selecting if f.selector and f.selector.matches(pod.labels)), None)

    def put_pod(self, pod: PodFacts) -> None:
        place = pod.node, pod.workload, pod.namespace
        if self._places.get(pod.key) == place:
            return
        self.drop_pod(pod)
        self._places[pod.key] = place
        self._at[pod.node].add(pod.key)
        self._in[pod.namespace].add(pod.key)
        if pod.workload:
            self._on[pod.workload].add(pod.key)

    def drop_pod(self, pod: PodFacts) -> None:
        if (place := self._places.pop(pod.key, None)) is None:
            return
        node, workload, namespace = place
        _take(self._at, node, pod.key)
        _take(self._in, namespace, pod.key)
        if workload:
            _take(self._on, workload, pod.key)

    def put_function(self, function: FunctionFacts) -> Set[str]:
        """The pods whose function may be another one now."""
        before = self._functions.get(function.key)
        same = before and (before.workload, before.selector) == (function.workload, function.selector)
        touched = set() if same or before is None else set(self.drop_function(before))
        self._functions[function.key] = function
        if function.workload:
            self._scaling[function.workload][function.key] = function
        else:
            self._selecting[function.namespace][function.key] = function
        return touched if same else touched | self._pods_of(function)

    def drop_function(self, function: FunctionFacts) -> Set[str]:
        """The pods whose function may be another one now."""
        known = self._functions.pop(function.key, None)
        if known is None:
            return _NONE
        if known.workload:
            self._scaling[known.workload].pop(known.key, None)
            if not self._scaling[known.workload]:
                del self._scaling[known.workload]
        else:
            self._selecting[known.namespace].pop(known.key, None)
            if not self._selecting[known.namespace]:
                del self._selecting[known.namespace]
        return self._pods_of(known)

    def _pods_of(self, function: FunctionFacts) -> Set[str]:
        if function.workload:
            return set(self._on.get(function.workload, _NONE))
        return set(self._in.get(function.namespace, _NONE))


def _take(index: dict[K, set[str]], place: K, key: str) -> None:
    index[place].discard(key)
    if not index[place]:
        del index[place]
