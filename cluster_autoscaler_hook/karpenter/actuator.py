"""The writes: NodeClaims, pods released, the NodePlan. Each can be repeated without harm."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import structlog
from prometheus_client import Counter

from cluster_autoscaler_hook.karpenter import claims, nodeplan
from cluster_autoscaler_hook.karpenter.claim_lifecycle import Release, Removal
from cluster_autoscaler_hook.karpenter.model import Plan
from cluster_autoscaler_hook.karpenter.pending_pods import LetGo
from cluster_autoscaler_hook.karpenter.settings import Settings
from surgekit.kube.api_path import Resource
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.events import Events

__all__ = ["Actuator"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
T = TypeVar("T")
_PODS = Resource("v1", "pods")
_AT_ONCE = 8
# Somebody was there first (422: the pod is bound meanwhile), or it is gone: the next view tells.
_OVERTAKEN = frozenset({404, 409, 422})


class Actuator:
    """Writes while `allowed()`: asked before every write, as a lease can be lost in between."""

    def __init__(self, kube: Kube, settings: Settings, allowed: Callable[[], bool], writes: Counter) -> None:
        self._kube, self._settings, self._allowed, self._writes = kube, settings, allowed, writes
        self._events = Events(kube, "node-planner", "v1", "Pod")
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="write")

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def create_claims(self, plan: Plan) -> tuple[set[str], list[str]]:
        """Make the plan's claims; those that are there now, and what failed, in words."""
        made: set[str] = set()

        def create(body: Json) -> None:
            try:
                self._kube.create(claims.PATH, body)
            except ApiError as error:
                if error.reason != "AlreadyExists":  # ours, from before a restart
                    raise
            made.add(body["metadata"]["name"])

        bodies = [claims.claim_object(node, plan.kinds, plan.id, self._settings) for node in plan.nodes]
        return made, self._each("claim", create, bodies)

    def release(self, releases: Iterable[Release]) -> list[Release]:
        """Nominate each pod for its node, then take its gate off; those for which both were written."""
        done: list[Release] = []

        def write(release: Release) -> None:
            pod = (release.namespace, release.pod)
            # With the uid, so that a pod of the same name that came meanwhile is left alone.
            uid = {"uid": release.uid}
            status = {"nominatedNodeName": release.node}
            self._kube.patch(_PODS.path(*pod, "status"), {"metadata": uid, "status": status})
            self._kube.patch(_PODS.path(*pod), {"metadata": uid, "spec": {"schedulingGates": None}})
            done.append(release)

        self._each("release", write, releases)
        return done

    def let_go(self, pods: Iterable[LetGo]) -> None:
        """Take our gate off each and say why in an Event."""

        def write(pod: LetGo) -> None:
            rest = [{"name": gate} for gate in pod.gates]
            body = {"metadata": {"uid": pod.uid}, "spec": {"schedulingGates": rest or None}}
            self._kube.patch(_PODS.path(pod.namespace, pod.pod), body)
            metadata = {"namespace": pod.namespace, "name": pod.pod, "uid": pod.uid}
            self._events.post(metadata, "LeftToKarpenter", f"No node is planned for this pod: {pod.reason}")

        self._each("let go", write, pods)

    def remove(self, removals: Iterable[Removal]) -> None:
        def delete(removal: Removal) -> None:
            self._kube.delete(claims.NODE_CLAIMS.path(name=removal.claim))
            log.info("claim removed", claim=removal.claim, decision=removal.reason)

        self._each("removal", delete, removals)

    def read_plan(self) -> Json:
        """The NodePlan as it is; made if there is none."""
        try:
            return self._kube.get(nodeplan.NODE_PLANS.path(name=self._settings.pool))
        except ApiError as error:
            if error.code != 404:
                raise
            return self._kube.create(nodeplan.PATH, nodeplan.new_object(self._settings))

    def write_plan(self, status: Json) -> None:
        if not self._allowed():
            return
        path = nodeplan.NODE_PLANS.path(name=self._settings.pool, subresource="status")
        try:
            self._kube.patch(path, {"status": status})
        except ApiError as error:
            if error.code != 404:
                raise
            self._kube.create(nodeplan.PATH, nodeplan.new_object(self._settings))
            self._kube.patch(path, {"status": status})
        self._writes.labels("plan", "written").inc()

    def _each(self, kind: str, write: Callable[[T], object], items: Iterable[T]) -> list[str]:
        def one(item: T) -> str:
            if not self._allowed():
                return "the lease is lost"
            try:
                write(item)
            except ApiError as error:
                overtaken = error.code in _OVERTAKEN and kind != "claim"
                self._writes.labels(kind, "overtaken" if overtaken else "failed").inc()
                if not overtaken:
                    log.warning("write failed", kind=kind, error=str(error))
                    return str(error)
            except KubeUnreachable as error:
                self._writes.labels(kind, "failed").inc()
                return str(error)
            else:
                self._writes.labels(kind, "written").inc()
            return ""

        return [failure for failure in self._pool.map(one, list(items)) if failure]
