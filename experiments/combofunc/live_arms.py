"""Carry out each arm on a lab: what is written to the API server when a target changes.

`stock` is a Deployment for each function. `autopilot` is a ReplicaSet, because a Deployment would replace
all pods when its template's size changes; its pods are resized through `resize`. `random_fit` binds its
pods itself. `ours` and `no_inplace` are ComboFunc objects, carried out by the controller.
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from combofunc.reconcile.held_target import RecentTargets, held_target, note_target
from experiments.combofunc.arms import AS_SHIPPED_S, NO_INPLACE, RANDOM_FIT, STOCK, Setup
from experiments.combofunc.baselines import Autopilot, RandomFit
from experiments.combofunc.live_view import FUNCTION, LiveView
from experiments.combofunc.model import Create, Remove
from experiments.combofunc.workload import Function, Size
from kwok.pods import pod
from surgekit.kube.client import ApiError, Kube

__all__ = ["NAMESPACE", "LiveScaler", "live_scaler"]

Json = dict[str, Any]
NAMESPACE = "functions"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_STRATEGIC = "application/strategic-merge-patch+json"
_AT_ONCE = 8
_SEEN_S = 5.0  # until a created pod must be visible on the watch


class LiveScaler(Protocol):
    def aim(self, target: int) -> None:
        """Set the target."""

    def look(self) -> None:
        """Called every second."""


def live_scaler(setup: Setup, function: Function, kube: Kube, view: LiveView) -> LiveScaler:
    arm, choice, draw = setup.arm, setup.choice, setup.draw(function)
    if choice is None:
        return _ComboFunc(kube, function, {"keepWarm": f"{AS_SHIPPED_S:g}s"})
    if arm == NO_INPLACE:
        return _ComboFunc(kube, function, {"inPlace": False, "keepWarm": f"{choice.keep_s:g}s"})
    sizes = function.sizes[: choice.step + 1]
    scaler: LiveScaler
    if arm == STOCK:
        scaler = _Deployment(kube, function, sizes[-1])
    elif arm == RANDOM_FIT:
        scaler = _BoundPods(kube, function, RandomFit(sizes[-1], draw), view)
    else:
        scaler = _ResizedReplicaSet(kube, function, Autopilot(sizes, choice.shrink_first, draw), view)
    return _Delayed(scaler, choice.keep_s)


class _Delayed:
    """Holds the highest target of a window; unlike in virtual time, also while others lack room."""

    def __init__(self, scaler: LiveScaler, seconds: float) -> None:
        self._scaler, self._seconds = scaler, seconds
        self._recent: RecentTargets = ((time.monotonic(), 0),)
        self._target = self._told = 0

    def aim(self, target: int) -> None:
        self._target, self._told = target, self._held(target)
        self._scaler.aim(self._told)

    def look(self) -> None:
        if self._held(self._target) != self._told:
            self.aim(self._target)
        self._scaler.look()

    def _held(self, target: int) -> int:
        self._recent = note_target(self._recent, target, sys.maxsize, self._seconds, time.monotonic())
        return held_target(self._recent)


class _ComboFunc:
    def __init__(self, kube: Kube, function: Function, spec: Json) -> None:
        self._kube, self._function, self._spec, self._made = kube, function, spec, False
        self._path = f"/apis/surgekit.dev/v1alpha1/namespaces/{NAMESPACE}/combofuncs"

    def aim(self, target: int) -> None:
        name = self._function.name
        if self._made:
            self._kube.patch(f"{self._path}/{name}", {"spec": {"targetConcurrency": target}})
            return
        self._made = True
        body = {
            "apiVersion": "surgekit.dev/v1alpha1",
            "kind": "ComboFunc",
            "metadata": {"name": name},
            "spec": {
                "template": _template(self._function, self._function.sizes[0]),
                "sizes": [size.offered for size in self._function.sizes],
                "targetConcurrency": target,
                "drain": "0s",  # as in the other arms, pods end at once
                "mode": "enforce",
                **self._spec,
            },
        }
        self._kube.create(self._path, body)

    def look(self) -> None:
        pass


class _Deployment:
    def __init__(self, kube: Kube, function: Function, size: Size) -> None:
        self._kube, self._function, self._size, self._made = kube, function, size, False
        self._path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"

    def aim(self, target: int) -> None:
        replicas = math.ceil(target / self._size.concurrency)
        if self._made:
            self._kube.patch(f"{self._path}/{self._function.name}/scale", {"spec": {"replicas": replicas}})
            return
        self._made = True
        self._kube.create(self._path, _replicated(self._function, self._size, replicas))

    def look(self) -> None:
        pass


class _ResizedReplicaSet:
    def __init__(self, kube: Kube, function: Function, scaler: Autopilot, view: LiveView) -> None:
        self._kube, self._function, self._scaler, self._view = kube, function, scaler, view
        self._path = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
        self._made = False

    def aim(self, target: int) -> None:
        wanted = self._scaler.wanted(self._view.state(self._function.name), target)
        body = _replicated(self._function, wanted.size, wanted.replicas)
        if self._made:
            self._kube.patch(f"{self._path}/{self._function.name}", {"spec": body["spec"]})
        else:
            self._made = True
            self._kube.create(self._path, body)
        other = [c.pod for c in wanted.kept if c.size != wanted.size]
        _all(lambda name: _resize(self._kube, name, wanted.size), other)

    def look(self) -> None:
        pass


class _BoundPods:
    def __init__(self, kube: Kube, function: Function, scaler: RandomFit, view: LiveView) -> None:
        self._kube, self._function, self._scaler, self._view = kube, function, scaler, view
        self._target, self._numbers = 0, itertools.count()
        self._made: list[str] = []

    def aim(self, target: int) -> None:
        self._target = target
        self.look()

    def look(self) -> None:
        """Runs even if the target is unchanged, for pods that did not fit before."""
        deadline_s = time.monotonic() + _SEEN_S
        while not self._view.knows(self._made) and time.monotonic() < deadline_s:
            time.sleep(0.005)
        actions = self._scaler.decide(self._view.state(self._function.name), self._target).actions
        bodies = [self._pod(a) for a in actions if isinstance(a, Create)]
        self._made = [body["metadata"]["name"] for body in bodies]
        _all(lambda body: self._kube.create(_PODS, body), bodies)
        _all(lambda name: _delete(self._kube, name), [a.pod for a in actions if isinstance(a, Remove)])

    def _pod(self, action: Create) -> Json:
        template = _template(self._function, action.size)
        name = f"{self._function.name}-{next(self._numbers):05d}"
        metadata = template["metadata"] | {"name": name}
        return {"metadata": metadata, "spec": template["spec"] | {"nodeName": action.node}}


def _template(function: Function, size: Size) -> Json:
    amounts = size.amounts
    made = pod(function.name, amounts["cpu"], amounts["memory"], image=f"registry.example/{function.name}:1")
    return {"metadata": {"labels": {FUNCTION: function.name}}, "spec": made["spec"]}


def _replicated(function: Function, size: Size, replicas: int) -> Json:
    """A Deployment or a ReplicaSet."""
    labels = {FUNCTION: function.name}
    return {
        "metadata": {"name": function.name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": _template(function, size),
        },
    }


def _resize(kube: Kube, name: str, size: Size) -> None:
    containers = [{"name": "app", "resources": {"requests": size.amounts}}]
    _unless_gone(
        lambda: kube.patch(f"{_PODS}/{name}/resize", {"spec": {"containers": containers}}, _STRATEGIC)
    )


def _delete(kube: Kube, name: str) -> None:
    _unless_gone(lambda: kube.delete(f"{_PODS}/{name}", gracePeriodSeconds=0))


def _unless_gone(call: Callable[[], object]) -> None:
    try:
        call()
    except ApiError as error:
        if error.code != 404:
            raise


def _all(do: Callable[[Any], object], things: Iterable[Any]) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(do, things))
