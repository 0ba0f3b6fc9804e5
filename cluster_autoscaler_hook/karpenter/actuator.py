"""Every write of the hook: NodeClaims, pods, the NodePlan, Events. Each can be repeated without harm."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import structlog
from prometheus_client import Counter

from cluster_autoscaler_hook.karpenter import claims, nodeplan
from cluster_autoscaler_hook.karpenter.claim_lifecycle import ClaimRemoval, PodRelease
from cluster_autoscaler_hook.karpenter.labels import GATE
from cluster_autoscaler_hook.karpenter.model import Plan
from cluster_autoscaler_hook.karpenter.notices import Notice
from cluster_autoscaler_hook.karpenter.pending_pods import HandOver
from cluster_autoscaler_hook.karpenter.settings import Settings
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.events import EventRecorder
from surgekit.kube.nomination import PodRef, nominate_and_release

__all__ = ["Actuator"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
T = TypeVar("T")
_PARALLEL_WRITES = 8
# The object is gone or was changed by others (422: the pod is bound already); the next view shows it.
_OVERTAKEN = frozenset({404, 409, 422})


class Actuator:
    """Writes while `allowed()`, which is asked before every write: the Lease can be lost in between."""

    def __init__(
        self,
        kube: Kube,
        events: EventRecorder,
        settings: Settings,
        allowed: Callable[[], bool],
        writes: Counter,
    ) -> None:
        self._kube, self._settings, self._allowed, self._writes = kube, settings, allowed, writes
        self._pod_events = events.about("v1", "Pod")
        self._plan_events = events.about(nodeplan.NODE_PLANS.api_version, "NodePlan")
        self._plan_metadata: Json = {"name": settings.pool}
        self._pool = ThreadPoolExecutor(_PARALLEL_WRITES, thread_name_prefix="write")

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def create_claims(self, plan: Plan) -> tuple[set[str], list[str]]:
        """Create the plan's claims. Return the names of those that exist now, and the errors."""
        created: set[str] = set()

        def create(body: Json) -> None:
            try:
                self._kube.create(claims.PATH, body)
            except ApiError as error:
                if error.reason != "AlreadyExists":  # else it is ours, from before a restart
                    raise
            created.add(body["metadata"]["name"])

        bodies = [claims.claim_object(node, plan.kinds, plan.id, self._settings) for node in plan.nodes]
        return created, self._each("claim", create, bodies)

    def release(self, releases: Iterable[PodRelease]) -> list[PodRelease]:
        """Nominate each pod for its node, then remove its gate. Return those for which both succeeded."""
        done: list[PodRelease] = []

        def write(release: PodRelease) -> None:
            pod = PodRef(release.namespace, release.pod, release.uid)
            nominate_and_release(self._kube, pod, GATE, release.node)
            done.append(release)

        self._each("release", write, releases)
        return done

    def hand_over(self, pods: Iterable[HandOver]) -> None:
        """Remove our gate from each pod and post the reason as an Event."""

        def write(pod: HandOver) -> None:
            nominate_and_release(self._kube, PodRef(pod.namespace, pod.pod, pod.uid), GATE)
            metadata = {"namespace": pod.namespace, "name": pod.pod, "uid": pod.uid}
            note = f"No node is planned for this pod: {pod.reason}"
            self._pod_events.post(metadata, "LeftToKarpenter", note)

        self._each("hand over", write, pods)

    def delete_claims(self, removals: Iterable[ClaimRemoval]) -> None:
        def delete(removal: ClaimRemoval) -> None:
            self._kube.delete(claims.NODE_CLAIMS.path(name=removal.claim))
            log.info("claim removed", claim=removal.claim, decision=removal.reason)

        self._each("removal", delete, removals)

    def notify(self, notice: Notice) -> None:
        """Post an Event about the NodePlan."""
        if self._allowed():
            self._plan_events.post(self._plan_metadata, notice.reason, notice.note, "Warning")

    def read_plan(self) -> Json:
        """The NodePlan as it is; created if there is none."""
        try:
            found = self._kube.get(nodeplan.NODE_PLANS.path(name=self._settings.pool))
        except ApiError as error:
            if error.code != 404:
                raise
            found = self._kube.create(nodeplan.PATH, nodeplan.new_object(self._settings))
        self._plan_metadata = found["metadata"]
        return found

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
        """Write all items, several at a time, whatever fails. Return the errors."""

        def write_one(item: T) -> str:
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

        return [failure for failure in self._pool.map(write_one, list(items)) if failure]
